"""The facts in the pulse of a session, as values; each is checked where it is read. Pure.

The names of the attributes match the JSON, see docs/pulse.md. Sizes are in bytes, times in seconds.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, PlainValidator

from holdfast.runtime.guest_rpc.guest_value import Count, GuestValue, Observed, Seconds, Tally, listed, shown

Sign = Annotated[str, shown(40)]
Name = Annotated[str, shown(100)]
Label = Annotated[str, shown(200)]
Text = Annotated[str, shown(4096)]
Labels = Annotated[tuple[Label, ...], listed(1000)]
Kind = Annotated[str, shown(20)]


class Origin(GuestValue):
    """The origin of a process: a command, cell or job by id, or else a shell, a kernel, the supervisor."""

    kind: Sign = ""
    id: Label = ""
    command: Annotated[str, shown(500)] = ""
    actor: Label = ""


class Process(GuestValue):
    """A process. `cpu_percent` of one processor was measured over the last `cpu_over` seconds."""

    pid: Count
    ppid: Count
    group: Count
    session: Count
    state: Sign = ""
    name: Label = ""
    command: Text = ""
    uid: Count
    user: Name = ""
    terminal: Name | None = None
    cpu_seconds: Seconds = 0.0
    cpu_percent: Seconds = 0.0
    cpu_over: Seconds = 0.0
    resident: Count
    virtual: Count
    threads: Count
    age: Seconds = 0.0
    descriptors: Count | None = None
    origin: Origin | None = None


class Lock(GuestValue):
    """A lock on bytes of a file, `start` to `end` or the file's end. `kind`: posix, flock, ofd or lease."""

    kind: Sign = ""
    mode: Sign = ""
    mandatory: bool = False
    pid: Count | None = None
    start: Count
    end: Count | None = None


class OpenFile(GuestValue):
    """A file that a process has open. `deleted` if it no longer has a name: `path` is its path when it was
    opened."""

    pid: Count
    fd: Count
    path: Text = ""
    kind: Sign = ""
    size: Count | None = None
    deleted: bool = False
    offset: Count
    access: Annotated[str, shown(10)] = ""
    flags: Labels = ()
    locks: Annotated[tuple[Lock, ...], listed()] = ()


class Descriptor(GuestValue):
    """Another open descriptor of a process: `path` is a pipe, a socket, a device, as named in /proc."""

    pid: Count
    fd: Count
    path: Text = ""
    kind: Sign = ""


class Owner(GuestValue):
    """A descriptor that refers to a socket."""

    pid: Count
    fd: Count


class Socket(GuestValue):
    """A socket: internet with addresses and ports, or unix with a path. Without owners if unseen."""

    protocol: Annotated[str, shown(20)] = ""
    state: Sign = ""
    local: Name | None = None
    local_port: Count | None = None
    remote: Name | None = None
    remote_port: Count | None = None
    path: Text | None = None
    send_queue: Tally = 0
    receive_queue: Tally = 0
    inode: Count
    owners: Annotated[tuple[Owner, ...], listed()] = ()

    @property
    def listening(self) -> bool:
        """True if it accepts connections or, as a UDP socket, any datagram sent to it."""
        return self.state in ("listening", "bound")


class Modes(GuestValue):
    """The way a terminal processes typed input, see termios(3)."""

    echo: bool = False
    canonical: bool = False
    signals: bool = False
    raw: bool = False


class Terminal(GuestValue):
    """The terminal of a shell. `command` has its foreground; `exec` is the id of the command that runs.

    `holder` has the lease to write, `attached` are the actors whose terminals show it.
    """

    shell: Name = ""
    pid: Count | None = None
    name: Name | None = None
    rows: Count
    cols: Count
    modes: Modes | None = None
    foreground: Count | None = None
    command: Text = ""
    exec: Label | None = None
    observed: Observed
    alternate_screen: bool = False
    cwd: Text = ""
    variables: Count
    exported: Count
    functions: Count
    aliases: Count
    output_offset: Count
    holder: Name | None = None
    attached: Labels = ()
    screen: Annotated[str | None, PlainValidator(lambda _: None)] = None
    """The picture it shows, which the host draws from its bytes: what the guest reports here is dropped."""


class Variable(GuestValue):
    """A name in a kernel. `kind` is value, module, function or class; the rest is set for known types."""

    name: Label = ""
    type: Label = ""
    kind: Annotated[Kind, AfterValidator(lambda kind: kind or "value")] = "value"
    length: Count | None = None
    bytes: Count | None = None
    shape: Annotated[tuple[int, ...], listed()] | None = None
    dtype: Label | None = None


class Variables(GuestValue):
    """The names a user has in a kernel, newest last.

    `current` is False if the kernel could not be queried: they are as of cell `as_of`, or `note` says why
    none are known.
    """

    rows: Annotated[tuple[Variable, ...], listed()]
    left_out: Count
    as_of: Count | None = None
    current: bool = False
    note: Annotated[str, shown(300)] = ""


class Kernel(GuestValue):
    """A kernel. `state` is starting, idle, busy or dead; `epoch` counts its processes.

    `observed` says what it does or waits for.
    """

    name: Name = ""
    spec: Name = ""
    pid: Count | None = None
    state: Kind = ""
    observed: Observed
    execution_count: Count
    epoch: Count
    variables: Variables | None = None
