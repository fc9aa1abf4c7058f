"""The pulse: what was going on in a session at one moment, as one value that can be asked.

Pure. How it is fetched is `calls`; how it is drawn is the command line's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.pulse.facts import (
    Descriptor,
    OpenFile,
    Process,
    Raw,
    Socket,
    Terminal,
    frame,
    numbers,
    objects,
    said,
    word,
)
from holdfast.runtime.pulse.kernel_facts import Kernel
from holdfast.runtime.pulse.limits import Disk, Limits, Lineage, Memory

COUNTS = {
    "memory": ("proportional", "private_dirty", "swap", "shared"),
    "io": ("read", "written", "read_from_disk", "written_to_disk"),
    "limits": ("open_files", "processes", "core"),
    "status": ("real_uid", "switches", "forced_switches"),
}


@dataclass(frozen=True, slots=True)
class Detail:
    """More about one process. What it does not let be seen is None or empty."""

    pid: int
    cwd: str | None
    exe: str | None
    waits_in: str | None
    memory: Mapping[str, int]
    io: Mapping[str, int]
    limits: Mapping[str, int | None]
    status: Mapping[str, int]

    @classmethod
    def of(cls, pid: int, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "detail")
        found = {key: _known(raw.get(key, {}), key, names) for key, names in COUNTS.items()}
        known = {key: {n: v for n, v in table.items() if v is not None} for key, table in found.items()}
        return cls(
            pid,
            word(told, "cwd"),
            word(told, "exe"),
            word(told, "waits_in", 100),
            known["memory"],
            known["io"],
            found["limits"],
            known["status"],
        )


def _known(raw: Any, what: str, names: tuple[str, ...]) -> dict[str, int | None]:
    """The numbers of a table by the names we know: others are the guest's own words."""
    told = frame(raw, what)
    return {name: wire_fields.optional_integer(told, name) for name in names if name in told.head}


@dataclass(frozen=True, slots=True)
class File:
    """A path that was asked about, and who has it open. `size` and what follows are None if it is gone."""

    path: str
    exists: bool
    kind: str | None
    size: int | None
    modified: float | None
    mode: int | None
    uid: int | None
    opened: tuple[OpenFile, ...]

    @classmethod
    def of(cls, raw: Raw, opened: tuple[OpenFile, ...]) -> Self:
        """From the answer."""
        told = frame(raw, "file")
        path = said(told, "path")
        if raw.get("status") is None:
            return cls(path, False, None, None, None, None, None, opened)
        status = frame(raw["status"], "status")
        return cls(
            path,
            True,
            word(status, "kind", 20),
            wire_fields.integer(status, "size"),
            wire_fields.number(status, "modified"),
            wire_fields.integer(status, "mode"),
            wire_fields.integer(status, "uid"),
            opened,
        )


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
    file: File | None = None

    @classmethod
    def of(cls, raw: Raw, lineage: Lineage, pid: int | None = None) -> Self:
        """From the answer of the session."""
        told = frame(raw, "pulse")
        parts = {key: frame(raw.get(key, {}), key) for key in ("processes", "files", "sockets")}
        rows = {key: objects(part.head.get("rows", []), key) for key, part in parts.items()}
        opened = tuple(OpenFile.of(row) for row in rows["files"])
        others = objects(parts["files"].head.get("others", []), "descriptors")
        return cls(
            id=lineage.session,
            name=lineage.name,
            at=wire_fields.number(told, "at"),
            took=wire_fields.number(told, "took"),
            uptime=None if raw.get("uptime") is None else wire_fields.number(told, "uptime"),
            lineage=lineage,
            limits=Limits.of(raw["limits"]) if "limits" in raw else None,
            processes=tuple(Process.of(row) for row in rows["processes"]),
            files=opened,
            descriptors=tuple(Descriptor.of(row) for row in others),
            sockets=tuple(Socket.of(row) for row in rows["sockets"]),
            terminals=tuple(Terminal.of(row) for row in objects(raw.get("terminals", []), "terminals")),
            kernels=tuple(Kernel.of(row) for row in objects(raw.get("kernels", []), "kernels")),
            left_out=LeftOut(*(wire_fields.optional_integer(parts[key], "left_out") or 0 for key in parts)),
            unseen=numbers(parts["files"], "unseen"),
            detail=Detail.of(pid, raw["detail"]) if pid is not None and raw.get("detail") else None,
            file=File.of(raw["file"], opened) if "file" in raw else None,
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
        return dataclasses.asdict(self)


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
        return {**dataclasses.asdict(self), "answers": self.answers}
