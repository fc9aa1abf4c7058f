"""The texts of the survivability report: each kind of resource, its verdict, reason and remedy. Pure data.

One table serves the report before a capture, the interpretation of CRIU's log after a failed one, and the
documentation. `survives`: a copy has it as it was. `reset`: the captured session keeps it, a copy finds it
closed or empty. `blocks`: with it a capture, or every restore of it, has been seen to fail.
"""

from __future__ import annotations

from typing import NamedTuple

SURVIVES, RESET, BLOCKS = "survives", "reset", "blocks"


class ResourceKind(NamedTuple):
    """A kind of resource. `reason` describes a process with it; it and `advice` can be empty.

    `replaceable`: where a descriptor leads to it, a copy can be given another file instead. `passing`: it
    can well have disappeared an instant later.
    """

    verdict: str
    title: str
    reason: str = ""
    advice: str = ""
    replaceable: bool = True
    passing: bool = False


_STOP = "close it or end the process"

CATALOGUE: dict[str, ResourceKind] = {
    # Processes.
    "process": ResourceKind(
        SURVIVES, "process", "continues where it was, with memory, threads, timers and signals"
    ),
    "zombie": ResourceKind(SURVIVES, "ended process not yet collected"),
    "stopped": ResourceKind(SURVIVES, "stopped process", "stays stopped"),
    "other_user": ResourceKind(SURVIVES, "process with ids of several users", "keeps all of them"),
    "outside": ResourceKind(
        BLOCKS,
        "process outside the session's tree",
        "is in the session's container but not in its tree, so it would run while everything else is frozen; "
        "`docker exec` on the host starts such processes",
        "end it, or start it with `holdfast exec`",
        passing=True,
    ),
    "arriving": ResourceKind(
        BLOCKS,
        "memory that is still being restored",
        "is of the host, and serves the session's memory on demand until all of it has arrived",
        "try again in a few seconds",
        passing=True,
    ),
    "traced": ResourceKind(
        BLOCKS,
        "traced process",
        "is being traced by a debugger or strace, and a process has only one tracer",
        "detach or quit the debugger or strace, then try again",
    ),
    "inner_namespace": ResourceKind(
        BLOCKS,
        "process in an inner sandbox",
        "runs in namespaces of its own",
        "start it without its inner sandbox, for a browser `--no-sandbox`",
    ),
    "stuck": ResourceKind(
        BLOCKS,
        "process that cannot be interrupted",
        "is in a system call that nothing can interrupt, and so cannot be stopped",
        "wait until the call returns (a child of vfork must start its program or end), or end the process",
        passing=True,
    ),
    "label": ResourceKind(
        BLOCKS,
        "process with a security label of its own",
        "has a different AppArmor or SELinux label than the session's first process, "
        "which a copy does not get",
        "end it, or start it without changing its profile",
    ),
    "adopted": ResourceKind(
        BLOCKS,
        "process adopted out of its session",
        "belongs to a session whose leader is not above it, and was adopted in a way a copy cannot repeat "
        "(by a subreaper, such as `tini -s`)",
        "end it, or start it below a process that does not adopt (PR_SET_CHILD_SUBREAPER, prctl(2))",
        passing=True,
    ),
    "crowd": ResourceKind(
        BLOCKS,
        "more resources than a restore can check",
        "belongs to a session that has more resources than a restore can check",
        "close some, or end processes",
    ),
    "deep": ResourceKind(
        BLOCKS,
        "process in a folder whose path is too long",
        "is in a folder whose path is longer than the kernel can report, so that a copy cannot go there",
        "change to another folder, or end the process",
    ),
    "no_descriptor": ResourceKind(
        BLOCKS,
        "process without a free descriptor",
        "has as many descriptors open as its limit allows, and a capture opens two in it for a moment",
        "let it close some, raise its limit (`prlimit --nofile`), or end it",
    ),
    "trap": ResourceKind(
        BLOCKS,
        "process with a debugger's signal",
        "has a pending SIGTRAP, as processes of a debugger have",
        "detach or quit the debugger, or end the process",
    ),
    "supervisor": ResourceKind(
        RESET,
        "connection of the session's supervisor",
        "closes it for a capture, and listens again",
    ),
    "headless": ResourceKind(
        BLOCKS,
        "process whose main thread has ended",
        "continues in other threads after its first one ended",
        "let it end, or end it",
    ),
    # Files.
    "file": ResourceKind(
        SURVIVES, "open file or folder", "has it open at the same place; its contents are kept"
    ),
    "deleted_file": ResourceKind(
        SURVIVES, "deleted file that is open", "has it open; it is kept in the snapshot"
    ),
    "deleted_file_large": ResourceKind(
        BLOCKS,
        "deleted file of more than 256 MiB",
        "holds a deleted file of more than 256 MiB open, too large to be kept with the processes",
        f"{_STOP}; `cp /proc/PID/fd/FD NAME` keeps its contents",
    ),
    "mounted_file": ResourceKind(
        SURVIVES,
        "file on a mounted folder",
        "has a file of a mounted folder open, which is not captured and must be the same when a copy starts",
        "leave it unchanged, or copy it into the session",
    ),
    "inner_mount": ResourceKind(
        BLOCKS,
        "file on a file system mounted inside",
        "has a file open on a file system mounted inside the session, which a copy does not have",
        f"{_STOP} and unmount it",
    ),
    "fuse_file": ResourceKind(
        BLOCKS,
        "file on a user-space file system",
        "has a file open on a FUSE file system, whose server cannot be captured",
        f"{_STOP} and unmount it",
    ),
    "nowhere": ResourceKind(
        BLOCKS,
        "file of an unmounted file system",
        "has a file open on a file system that is not mounted here (message queue, memory of huge pages)",
        _STOP,
    ),
    "engine_file": ResourceKind(
        SURVIVES,
        "file that the engine makes for each container",
        "has a file open that the engine makes for each container, and in a copy has the copy's own",
    ),
    "path_only": ResourceKind(
        BLOCKS,
        "socket file or terminal opened by name only (O_PATH)",
        "has a socket file or terminal open by name only (O_PATH), so that it cannot be asked for its state",
        _STOP,
    ),
    "lock": ResourceKind(SURVIVES, "file lock", "also holds it in the copy, on the copy's file"),
    "proc_file": ResourceKind(SURVIVES, "file of /proc", "has it opened again"),
    "proc_file_gone": ResourceKind(
        BLOCKS,
        "file of /proc of a thread",
        "has a file of /proc open that describes a single thread, which a copy cannot open again",
        _STOP,
    ),
    "proc_file_inside": ResourceKind(
        BLOCKS,
        "file of /proc that leads into a process",
        "has a file of /proc open that is memory or writable, which a copy does not get",
        _STOP,
    ),
    "namespace": ResourceKind(SURVIVES, "namespace held open", "has the copy's own"),
    # Objects that are held by a descriptor and have no name.
    "pipe": ResourceKind(SURVIVES, "pipe", "has the data written to it"),
    "fifo": ResourceKind(SURVIVES, "named pipe", "has the data written to it"),
    "memory_file": ResourceKind(SURVIVES, "memory file (memfd)"),
    "terminal": ResourceKind(SURVIVES, "terminal"),
    "waiting": ResourceKind(SURVIVES, "event, timer, signal or poll descriptor"),
    "watch": ResourceKind(SURVIVES, "file watcher (inotify, fanotify)"),
    "watch_unread": ResourceKind(
        RESET,
        "file watcher with unread events",
        "keeps them here; a copy reads instead that events were lost (IN_Q_OVERFLOW)",
        "nothing, if the program then rescans everything; otherwise try again when it has read them",
    ),
    "watch_deleted": ResourceKind(
        RESET,
        "file watcher of a deleted file",
        "keeps watching it here; a copy reads that this watch has ended (IN_IGNORED)",
        "nothing, if the program then looks for the file by its name",
    ),
    "poll_lost": ResourceKind(
        BLOCKS,
        "epoll instance with a lost descriptor",
        "polls a descriptor that it has closed, but that another process keeps open",
        "end the process; in its code, remove a descriptor from the set before closing it",
    ),
    "watch_gone": ResourceKind(
        BLOCKS,
        "watcher of files that a copy does not have",
        "watches /proc, a file the engine makes for each container (/etc/hosts, /etc/resolv.conf), or a file "
        "whose path is longer than 4 kB",
        "end the process, or start it so that it does not watch them",
    ),
    "pidfd": ResourceKind(SURVIVES, "process descriptor (pidfd)"),
    "pidfd_outside": ResourceKind(
        BLOCKS,
        "pidfd of a process outside",
        "refers by a pidfd to a process that is not captured, or to a single thread",
        _STOP,
    ),
    "io_uring": ResourceKind(
        BLOCKS,
        "io_uring",
        "uses io_uring, whose rings cannot be read",
        "start it with io_uring switched off (Node.js: `UV_USE_IO_URING=0`)",
        replaceable=False,
    ),
    "kernel_object": ResourceKind(
        BLOCKS,
        "performance counter, BPF program, userfaultfd or other kernel object",
        "holds an object of the kernel that cannot be captured",
        _STOP,
    ),
    "device": ResourceKind(SURVIVES, "device without state (/dev/null, /dev/zero, /dev/urandom, ...)"),
    "device_hardware": ResourceKind(
        BLOCKS,
        "device (GPU, /dev/kvm, /dev/fuse, ...)",
        "has a device open whose state cannot be captured",
        "end the process, or let it run without the device",
    ),
    # Sockets.
    "listener": ResourceKind(SURVIVES, "listening socket", "listens at the copy's own address"),
    "loopback": ResourceKind(
        SURVIVES, "connection within the session", "continues with it, and with its data in flight"
    ),
    "connection_outside": ResourceKind(
        RESET,
        "TCP connection to outside",
        "keeps it here; in a copy it is closed",
        "nothing, if the program reconnects automatically",
    ),
    "connection_waiting": ResourceKind(
        RESET,
        "TCP connection not accepted yet",
        "keeps it here; in a copy it is closed",
        "nothing, if the program reconnects automatically",
    ),
    "connectionless": ResourceKind(
        SURVIVES, "UDP, raw or unconnected socket", "also has it in a copy, without unread data"
    ),
    "unix": ResourceKind(SURVIVES, "unix socket", "continues with it, and with its data in flight"),
    "unix_unread": ResourceKind(
        SURVIVES,
        "unix socket with unread datagrams",
        "reads them in a copy, but without their sender",
        "let it read them first, if it answers to the address they came from",
    ),
    "unix_outside": ResourceKind(
        BLOCKS,
        "unix socket to outside",
        "holds a unix socket whose other end is outside the session",
        "close that connection (of a mounted socket, for example), then try again",
    ),
    "unix_waiting": ResourceKind(
        BLOCKS,
        "unix connection not accepted yet",
        "has a unix connection that carries data, or was closed, before it was accepted",
        "try again when the server has accepted it, or end one of the two",
        passing=True,
    ),
    "socket_renamed": ResourceKind(
        BLOCKS,
        "unix socket whose file was renamed where a copy cannot repeat it",
        "has a unix socket whose file was renamed or linked since it was bound, outside of the session's own "
        "files or after it was bound by a relative name",
        "close it or end the process; a name from `/` can be renamed, and its folder too",
    ),
    "netlink": ResourceKind(SURVIVES, "netlink socket"),
    "netlink_unread": ResourceKind(
        BLOCKS,
        "netlink socket with unread messages",
        "has unread kernel messages",
        "try again, or end the process",
        passing=True,
    ),
    "datagram_corked": ResourceKind(
        BLOCKS,
        "UDP socket with a datagram that is being put together",
        "has an unsent datagram (UDP_CORK, MSG_MORE)",
        "let it send the datagram, then try again",
        passing=True,
    ),
    "socket_foreign": ResourceKind(
        BLOCKS,
        "socket of an unsupported family or protocol",
        "uses a network protocol that cannot be captured",
        "stop it, or let it use TCP, UDP or unix sockets (Go: `GODEBUG=multipathtcp=0`)",
    ),
    # Memory.
    "shared_memory": ResourceKind(SURVIVES, "shared memory, POSIX or System V"),
    "device_memory": ResourceKind(
        BLOCKS,
        "memory of a device or of io_uring",
        "has memory of a device or of io_uring mapped, which cannot be read",
        "end the process, or start it with the device or io_uring switched off",
    ),
}
