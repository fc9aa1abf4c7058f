"""The pulse: the state of a session at one instant, as one value that can be queried.

Pure. `calls` fetches it; the command line renders it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import Field
from pydantic_core import to_jsonable_python

from holdfast.runtime.guest_rpc.guest_value import (
    KNOWN,
    Count,
    GuestValue,
    Seconds,
    Tally,
    listed,
    only,
    shown,
    whole,
)
from holdfast.runtime.pulse.facts import (
    Descriptor,
    Kernel,
    Label,
    Name,
    OpenFile,
    Process,
    Socket,
    Terminal,
    Text,
)
from holdfast.runtime.pulse.limits import Disk, Limits, Lineage, Memory
from holdfast.runtime.pulse.listening_ports import MOST_OF_PAGE

NOTHING: Any = Field(default_factory=dict)
Counts = Annotated[dict[str, Count], KNOWN]


class Detail(GuestValue):
    """More about one process. A fact that could not be read is None or empty."""

    pid: Count = 0
    cwd: Text | None = None
    exe: Text | None = None
    waits_in: Name | None = None
    memory: Annotated[Counts, only("proportional", "private_dirty", "swap", "shared")] = NOTHING
    io: Annotated[Counts, only("read", "written", "read_from_disk", "written_to_disk")] = NOTHING
    limits: Annotated[dict[str, Count | None], only("open_files", "processes", "core")] = NOTHING
    status: Annotated[Counts, only("real_uid", "switches", "forced_switches")] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskedFile:
    """A queried path, and the processes that have it open. `size` and the rest are None if it was removed."""

    path: str
    exists: bool
    kind: str | None = None
    size: int | None = None
    modified: float | None = None
    mode: int | None = None
    uid: int | None = None
    opened: tuple[OpenFile, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the file in its JSON form."""
        found: dict[str, Any] = to_jsonable_python(self)
        return found


class _Status(GuestValue):
    kind: Annotated[str, shown(20)] | None = None
    size: Count
    modified: Seconds = 0.0
    mode: Count
    uid: Count


class _AskedFile(GuestValue):
    path: Text = ""
    status: _Status | None = None

    def used(self, opened: tuple[OpenFile, ...]) -> AskedFile:
        if self.status is None:
            return AskedFile(self.path, exists=False, opened=opened)
        return AskedFile(self.path, exists=True, opened=opened, **dict(self.status))


class _Processes(GuestValue):
    rows: Annotated[tuple[Process, ...], listed()] = ()
    left_out: Tally = 0


class _Files(GuestValue):
    rows: Annotated[tuple[OpenFile, ...], listed()] = ()
    others: Annotated[tuple[Descriptor, ...], listed()] = ()
    left_out: Tally = 0
    unseen: Annotated[tuple[int, ...], listed()] = ()


class _Sockets(GuestValue):
    rows: Annotated[tuple[Socket, ...], listed()] = ()
    left_out: Tally = 0


class Answer(GuestValue):
    """A pulse as the session returns it; parts that were not requested are missing."""

    at: Seconds = 0.0
    took: Seconds = 0.0
    uptime: Seconds | None = None
    limits: Limits | None = None
    processes: _Processes = _Processes()
    files: _Files = _Files()
    sockets: _Sockets = _Sockets()
    terminals: Annotated[tuple[Terminal, ...], listed()] = ()
    kernels: Annotated[tuple[Kernel, ...], listed()] = ()
    detail: Detail | None = None
    file: _AskedFile | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The numbers of items left out because there were too many."""

    processes: int = 0
    files: int = 0
    sockets: int = 0


@dataclass(frozen=True, slots=True)
class Pulse:
    """The state of a session at one instant. A part that was not requested is empty, or None.

    `took` is how long the session gathered. `unseen` are processes whose files it could not see.
    """

    id: str
    name: str
    at: float
    took: float
    uptime: float | None
    lineage: Lineage
    limits: Limits | None = None
    processes: tuple[Process, ...] = ()
    files: tuple[OpenFile, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    sockets: tuple[Socket, ...] = ()
    terminals: tuple[Terminal, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)
    unseen: tuple[int, ...] = ()
    disk: Disk | None = None
    detail: Detail | None = None
    file: AskedFile | None = None

    @classmethod
    def of(cls, raw: Any, lineage: Lineage, pid: int | None = None) -> Self:
        """Read the reply of the session.

        Raises:
            ProtocolError: the reply is not valid.
        """
        reply = Answer.of(raw)
        files = reply.files
        return cls(
            id=lineage.session,
            name=lineage.name,
            at=reply.at,
            took=reply.took,
            uptime=reply.uptime,
            lineage=lineage,
            limits=reply.limits,
            processes=reply.processes.rows,
            files=files.rows,
            descriptors=files.others,
            sockets=reply.sockets.rows,
            terminals=reply.terminals,
            kernels=reply.kernels,
            left_out=LeftOut(reply.processes.left_out, files.left_out, reply.sockets.left_out),
            unseen=files.unseen,
            detail=None if pid is None or not reply.detail else reply.detail.model_copy(update={"pid": pid}),
            file=reply.file.used(files.rows) if reply.file else None,
        )

    @property
    def memory(self) -> Memory | None:
        """Memory of the whole session."""
        return None if self.limits is None else self.limits.memory

    def process(self, pid: int) -> Process | None:
        """Return the process with that pid, or None."""
        return next((process for process in self.processes if process.pid == pid), None)

    def children(self, pid: int) -> tuple[Process, ...]:
        """Return the direct children of a process."""
        return tuple(process for process in self.processes if process.ppid == pid)

    def tree(self) -> Iterator[tuple[int, Process]]:
        """Yield every process with its depth, parents before their children."""
        known = {process.pid for process in self.processes}
        below: dict[int, list[Process]] = {}
        for process in self.processes:
            below.setdefault(process.ppid if process.ppid in known else -1, []).append(process)
        left = [(0, process) for process in reversed(below.get(-1, []))]
        seen: set[int] = set()
        while left:
            depth, process = left.pop()
            if process.pid in seen:
                continue
            seen.add(process.pid)
            yield depth, process
            left += [(depth + 1, child) for child in reversed(below.get(process.pid, []))]

    def listening(self, port: int | None = None) -> tuple[Socket, ...]:
        """Return the internet sockets that accept connections or UDP datagrams, at one port or at any."""
        return tuple(
            socket
            for socket in self.sockets
            if socket.listening and socket.local_port is not None and port in (None, socket.local_port)
        )

    def opened(self, path: str) -> tuple[OpenFile, ...]:
        """Return the open files at a path, each with its process."""
        return tuple(file for file in self.files if file.path == path)

    def as_dict(self) -> dict[str, Any]:
        """Return the pulse in its JSON form: the names match the attributes and remain stable."""
        found: dict[str, Any] = to_jsonable_python(self)
        return found


class Probe(GuestValue):
    """The outcome of a connection to a port. `page` is the reply of a web server, as Latin-1."""

    answer: Annotated[str, shown(20)]
    http_status: Count | None = None
    first_line: Label | None = None
    page: Annotated[str, whole(MOST_OF_PAGE)] | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener at a port. `answer` is accepted, refused, timeout or unreachable; None for UDP."""

    socket: Socket
    process: Process | None
    answer: str | None = None
    http_status: int | None = None
    first_line: str | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """The listeners at a port, if any."""

    port: int
    listeners: tuple[Listener, ...]

    @property
    def answers(self) -> bool:
        """True if a connection was accepted."""
        return any(listener.answer == "accepted" for listener in self.listeners)

    def as_dict(self) -> dict[str, Any]:
        """Return the port in its JSON form."""
        return {**to_jsonable_python(self), "answers": self.answers}
