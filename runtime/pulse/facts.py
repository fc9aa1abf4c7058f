"""What the pulse of a session tells, as values; each checked where it is read. Pure.

The names of the attributes are those of the JSON, see docs/pulse.md. Bytes are bytes, times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from holdfast.base.text import plain
from holdfast.errors import ProtocolError
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wait_state, wire_fields

Raw = Mapping[str, Any]
LONG = 4096


def frame(raw: Any, what: str) -> Frame:
    """An object of the answer, so that its fields can be checked."""
    return Frame({**wire_fields.table(raw, what), "event": what})


def objects(raw: Any, what: str, limit: int = 20_000) -> list[Raw]:
    """A list of objects."""
    if not isinstance(raw, list) or len(raw) > limit:
        raise ProtocolError(f"cannot understand the session: {what} is not a list")
    return [wire_fields.table(item, what) for item in raw]


def word(told: Frame, key: str, limit: int = LONG) -> str | None:
    """A text fit to be shown, or nothing."""
    found = wire_fields.optional_text(told, key)
    return None if found is None else plain(found, limit)


def said(told: Frame, key: str, limit: int = LONG) -> str:
    """A text fit to be shown."""
    return plain(wire_fields.text(told, key, ""), limit)


def words(told: Frame, key: str) -> tuple[str, ...]:
    """A list of short texts."""
    found = told.head.get(key, [])
    if not isinstance(found, list) or len(found) > 1000 or not all(isinstance(each, str) for each in found):
        raise ProtocolError(f"cannot understand the session: {key} is not a list of texts")
    return tuple(plain(each, 200) for each in found)


def numbers(told: Frame, key: str) -> tuple[int, ...]:
    """A list of whole numbers."""
    found = told.head.get(key, [])
    if not isinstance(found, list) or len(found) > 20_000 or not all(type(each) is int for each in found):
        raise ProtocolError(f"cannot understand the session: {key} is not a list of numbers")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Origin:
    """What started a process: a command, cell or task by id, or else a shell, a kernel, the supervisor."""

    kind: str
    id: str
    command: str
    actor: str

    @classmethod
    def of(cls, raw: Any) -> Self | None:
        """From the answer; nothing if it is not known."""
        if raw is None:
            return None
        told = frame(raw, "origin")
        return cls(
            said(told, "kind", 40),
            said(told, "id", 200),
            said(told, "command", 500),
            said(told, "actor", 200),
        )


@dataclass(frozen=True, slots=True)
class Process:
    """A process. `cpu_percent` of one processor was measured over the last `cpu_over` seconds."""

    pid: int
    ppid: int
    group: int
    session: int
    state: str
    name: str
    command: str
    uid: int
    user: str
    terminal: str | None
    cpu_seconds: float
    cpu_percent: float
    cpu_over: float
    resident: int
    virtual: int
    threads: int
    age: float
    descriptors: int | None
    origin: Origin | None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "process")
        return cls(
            pid=wire_fields.integer(told, "pid"),
            ppid=wire_fields.integer(told, "ppid"),
            group=wire_fields.integer(told, "group"),
            session=wire_fields.integer(told, "session"),
            state=said(told, "state", 40),
            name=said(told, "name", 200),
            command=said(told, "command"),
            uid=wire_fields.integer(told, "uid"),
            user=said(told, "user", 100),
            terminal=word(told, "terminal", 100),
            cpu_seconds=wire_fields.number(told, "cpu_seconds"),
            cpu_percent=wire_fields.number(told, "cpu_percent"),
            cpu_over=wire_fields.number(told, "cpu_over"),
            resident=wire_fields.integer(told, "resident"),
            virtual=wire_fields.integer(told, "virtual"),
            threads=wire_fields.integer(told, "threads"),
            age=wire_fields.number(told, "age"),
            descriptors=wire_fields.optional_integer(told, "descriptors"),
            origin=Origin.of(raw.get("origin")),
        )


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on bytes of a file, from `start` to `end`, or its end. `kind`: posix, flock, ofd or lease."""

    kind: str
    mode: str
    mandatory: bool
    pid: int | None
    start: int
    end: int | None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "lock")
        return cls(
            kind=said(told, "kind", 40),
            mode=said(told, "mode", 40),
            mandatory=wire_fields.flag(told, "mandatory"),
            pid=wire_fields.optional_integer(told, "pid"),
            start=wire_fields.integer(told, "start"),
            end=wire_fields.optional_integer(told, "end"),
        )


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that a process has open. `deleted` if it has no name any more: `path` is the one it had."""

    pid: int
    fd: int
    path: str
    kind: str
    size: int | None
    deleted: bool
    offset: int
    access: str
    flags: tuple[str, ...]
    locks: tuple[Lock, ...]

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "file")
        return cls(
            pid=wire_fields.integer(told, "pid"),
            fd=wire_fields.integer(told, "fd"),
            path=said(told, "path"),
            kind=said(told, "kind", 40),
            size=wire_fields.optional_integer(told, "size"),
            deleted=wire_fields.flag(told, "deleted"),
            offset=wire_fields.integer(told, "offset"),
            access=said(told, "access", 10),
            flags=words(told, "flags"),
            locks=tuple(Lock.of(lock) for lock in objects(raw.get("locks", []), "locks")),
        )


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What else a process has open: `path` is a pipe, a socket, a device, as /proc names it."""

    pid: int
    fd: int
    path: str
    kind: str

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "descriptor")
        return cls(
            wire_fields.integer(told, "pid"),
            wire_fields.integer(told, "fd"),
            said(told, "path"),
            said(told, "kind", 40),
        )


@dataclass(frozen=True, slots=True)
class Owner:
    """A descriptor that stands for a socket."""

    pid: int
    fd: int

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "owner")
        return cls(wire_fields.integer(told, "pid"), wire_fields.integer(told, "fd"))


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket: of the internet with addresses and ports, of unix with a path. Without owners if unseen."""

    protocol: str
    state: str
    local: str | None
    local_port: int | None
    remote: str | None
    remote_port: int | None
    path: str | None
    send_queue: int
    receive_queue: int
    inode: int
    owners: tuple[Owner, ...]

    @property
    def listening(self) -> bool:
        """Whether it takes connections, or as a UDP socket whatever is sent to it."""
        return self.state in ("listening", "bound")

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "socket")
        owners = objects(raw.get("owners", []), "owners")
        return cls(
            protocol=said(told, "protocol", 20),
            state=said(told, "state", 40),
            local=word(told, "local", 100),
            local_port=wire_fields.optional_integer(told, "local_port"),
            remote=word(told, "remote", 100),
            remote_port=wire_fields.optional_integer(told, "remote_port"),
            path=word(told, "path"),
            send_queue=wire_fields.optional_integer(told, "send_queue") or 0,
            receive_queue=wire_fields.optional_integer(told, "receive_queue") or 0,
            inode=wire_fields.integer(told, "inode"),
            owners=tuple(Owner.of(owner) for owner in owners),
        )


@dataclass(frozen=True, slots=True)
class Modes:
    """How a terminal takes what is typed, see termios(3)."""

    echo: bool
    canonical: bool
    signals: bool
    raw: bool

    @classmethod
    def of(cls, raw: Any) -> Self | None:
        """From the answer; nothing if they are not known."""
        if raw is None:
            return None
        told = frame(raw, "modes")
        return cls(*(wire_fields.flag(told, each) for each in ("echo", "canonical", "signals", "raw")))


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal of a shell. `command` has its foreground; `exec` is the id of the command that runs.

    `holder` has the lease to write, `attached` are the actors whose terminals show it.
    """

    shell: str
    pid: int | None
    name: str | None
    rows: int
    cols: int
    modes: Modes | None
    foreground: int | None
    command: str
    exec: str | None
    observed: State
    alternate_screen: bool
    cwd: str
    variables: int
    exported: int
    functions: int
    aliases: int
    output_offset: int
    holder: str | None
    attached: tuple[str, ...]
    screen: str | None = None

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """From the answer."""
        told = frame(raw, "terminal")
        return cls(
            shell=said(told, "shell", 100),
            pid=wire_fields.optional_integer(told, "pid"),
            name=word(told, "name", 100),
            rows=wire_fields.integer(told, "rows"),
            cols=wire_fields.integer(told, "cols"),
            modes=Modes.of(raw.get("modes")),
            foreground=wire_fields.optional_integer(told, "foreground"),
            command=said(told, "command"),
            exec=word(told, "exec", 200),
            observed=wait_state.state(raw.get("observed")),
            alternate_screen=wire_fields.flag(told, "alternate_screen"),
            cwd=said(told, "cwd"),
            variables=wire_fields.integer(told, "variables"),
            exported=wire_fields.integer(told, "exported"),
            functions=wire_fields.integer(told, "functions"),
            aliases=wire_fields.integer(told, "aliases"),
            output_offset=wire_fields.integer(told, "output_offset"),
            holder=word(told, "holder", 100),
            attached=words(told, "attached"),
        )
