"""The pulse: what was going on in a session at one moment, as one value that can be asked.

Pure. How it is fetched is `calls`; how it is drawn is the command line's.
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
)
from holdfast.runtime.pulse.facts import Descriptor, Label, Name, OpenFile, Process, Socket, Terminal, Text
from holdfast.runtime.pulse.kernel_facts import Kernel
from holdfast.runtime.pulse.limits import Disk, Limits, Lineage, Memory

NOTHING: Any = Field(default_factory=dict)
Counts = Annotated[dict[str, Count], KNOWN]


class Detail(GuestValue):
    """More about one process. What it does not let be seen is None or empty."""

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
    """A path that was asked about, and who has it open. `size` and what follows are None if it is gone."""

    path: str
    exists: bool
    kind: str | None
    size: int | None
    modified: float | None
    mode: int | None
    uid: int | None
    opened: tuple[OpenFile, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
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
        if (status := self.status) is None:
            return AskedFile(self.path, False, None, None, None, None, None, opened)
        return AskedFile(
            self.path, True, status.kind, status.size, status.modified, status.mode, status.uid, opened
        )


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
    """A pulse as the session answers it; parts that were not asked for are not in it."""

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
    """How many were not told of, because there were too many."""

    processes: int = 0
    files: int = 0
    sockets: int = 0


@dataclass(frozen=True, slots=True)
class Pulse:
    """What was going on. A part that was not asked for is empty, or None.

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
        """From the answer of the session. Raises ProtocolError."""
        told = Answer.of(raw)
        files = told.files
        return cls(
            id=lineage.session,
            name=lineage.name,
            at=told.at,
            took=told.took,
            uptime=told.uptime,
            lineage=lineage,
            limits=told.limits,
            processes=told.processes.rows,
            files=files.rows,
            descriptors=files.others,
            sockets=told.sockets.rows,
            terminals=told.terminals,
            kernels=told.kernels,
            left_out=LeftOut(told.processes.left_out, files.left_out, told.sockets.left_out),
            unseen=files.unseen,
            detail=None if pid is None or not told.detail else told.detail.model_copy(update={"pid": pid}),
            file=told.file.used(files.rows) if told.file else None,
        )

    @property
    def memory(self) -> Memory | None:
        """Memory of the whole session."""
        return None if self.limits is None else self.limits.memory

    def process(self, pid: int) -> Process | None:
        """The process of that number, if there was one."""
        return next((process for process in self.processes if process.pid == pid), None)

    def children(self, pid: int) -> tuple[Process, ...]:
        """The processes whose parent that is."""
        return tuple(process for process in self.processes if process.ppid == pid)

    def tree(self) -> Iterator[tuple[int, Process]]:
        """Every process with its depth, parents before their children."""
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
        """The sockets of the internet that take connections or, of UDP, anything; at one port or at any."""
        return tuple(
            socket
            for socket in self.sockets
            if socket.listening and socket.local_port is not None and port in (None, socket.local_port)
        )

    def opened(self, path: str) -> tuple[OpenFile, ...]:
        """Who has a file open, by its path."""
        return tuple(file for file in self.files if file.path == path)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: the names are those of the attributes and stay as they are."""
        found: dict[str, Any] = to_jsonable_python(self)
        return found


class Probe(GuestValue):
    """What came of a connection to a port."""

    answer: Annotated[str, shown(20)]
    http_status: Count | None = None
    first_line: Label | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Somebody who listens at a port. `answer` is accepted, refused, timeout or unreachable; None of UDP."""

    socket: Socket
    process: Process | None
    answer: str | None = None
    http_status: int | None = None
    first_line: str | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """Who listens at a port; nobody if there are no listeners."""

    port: int
    listeners: tuple[Listener, ...]

    @property
    def answers(self) -> bool:
        """Whether a connection was accepted."""
        return any(listener.answer == "accepted" for listener in self.listeners)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**to_jsonable_python(self), "answers": self.answers}
