"""The result of a survey of a session, before it is judged. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.procfs.descriptor_info import FdInfo
from holdfast.procfs.descriptor_links import DescriptorTarget
from holdfast.procfs.memory_maps import Mapping as Memory
from holdfast.procfs.mount_table import MountedPart
from holdfast.procfs.process_status import ProcessStatus
from holdfast.procfs.socket_tables import SocketRow

ENGINE_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
"""Files that an engine makes for each container: they differ in a copy, also in length."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's state (stat(2)); `device` is the file system's, `node` major and minor of a device file."""

    kind: str
    device: int
    inode: int
    bytes: int
    links: int
    node: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class SeenDescriptor:
    """One open descriptor. `info` and `file` are set only where they matter; `family` only for sockets.

    `by_name`: it only names a device (O_PATH); for other files `info` has that. `unread`: bytes of unread
    events in an inotify instance.
    """

    number: int
    link: DescriptorTarget
    info: FdInfo | None = None
    file: FileState | None = None
    family: str = ""
    by_name: bool = False
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Mapped:
    """A notable part of memory, and the size on disk of a deleted file that is mapped."""

    memory: Memory
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """One process. `pid` is the host's number, `inner` the session's, even for one in a namespace below it.

    `stuck` is the inner id of a thread that nothing can stop; 0: none. `label` is the security label of a
    thread whose label differs from the container's first process's; empty: none differs.
    """

    pid: int
    inner: int
    status: ProcessStatus
    command: str
    namespaces: Mapping[str, int]
    descriptors: tuple[SeenDescriptor, ...] = ()
    memory: tuple[Mapped, ...] = ()
    stuck: int = 0
    label: str = ""
    most_open: int = 0
    is_deep: bool = False


@dataclass(frozen=True, slots=True)
class SessionMounts:
    """The mounts of a session. Device numbers have the form of stat(2).

    `mounts` are all by their id, `inner` the ones made inside, `host` folders that a user mounted.
    `engine_files` are device and inode of files that the engine makes for each container, `proc` the
    devices of /proc, `memory` the device of ordinary memfds.
    """

    mounts: Mapping[int, MountedPart]
    inner: frozenset[int] = frozenset()
    host: frozenset[int] = frozenset()
    engine_files: frozenset[tuple[int, int]] = frozenset()
    proc: frozenset[int] = frozenset()
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Network:
    """The sockets of a session's network namespace.

    `sockets` are by inode, `held` the targets of the tree's descriptors, `outside` other processes'
    sockets. `ends` are the local and remote address of each TCP connection, `unaccepted` the connections
    that only a listener holds; `listeners` are the unix sockets that listen. `in_flight`: descriptors are
    on their way through unix sockets of the tree, out of sight. `unread` are netlink sockets with messages,
    `astray` unix sockets whose file was renamed in a way that a copy cannot repeat.
    """

    sockets: Mapping[int, SocketRow]
    held: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()
    ends: frozenset[tuple[str, str]] = frozenset()
    unaccepted: frozenset[tuple[str, str]] = frozenset()
    listeners: tuple[SocketRow, ...] = ()
    in_flight: bool = False
    unread: frozenset[int] = frozenset()
    astray: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class World:
    """A session at one instant. Pids are the host's; processes come parents first, the supervisor foremost.

    `outside` are processes of the container that are not in the tree; `pids` maps the host's pid of each
    process of the tree to its inner pid, 0 if it has ended by then. `whole` is false if there was more than
    was read. `open` counts descriptors by the host's pid, including unread ones, up to the number that a
    restore judges.
    """

    processes: tuple[SeenProcess, ...]
    network: Network
    places: SessionMounts
    root_namespaces: Mapping[str, int]
    pids: Mapping[int, int]
    outside: tuple[SeenProcess, ...] = ()
    whole: bool = True
    open: Mapping[int, int] = field(default_factory=dict)
