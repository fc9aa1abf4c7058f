"""The fate of open descriptors, sockets among them. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.record import outside
from holdfast.snapshots.checkpointer.survey.seen import SeenDescriptor, SeenProcess, World

GHOST_LIMIT = 256 << 20
"""Bytes of a deleted file that CRIU is configured to keep at most."""
_WAITING = frozenset({"eventfd", "eventpoll", "signalfd", "timerfd"})
# Major numbers of devices, see devices.txt of Linux.
_MEMORY, _TERMINALS, _PTS = 1, 5, range(136, 144)
_THREAD = re.compile(r"/proc/(\d+)/task/(\d+)")
# Names of protocols in the kernel, see /proc/net/protocols.
_UNLISTED = {
    "TCP": "connectionless",
    "TCPv6": "connectionless",
    "UDP": "connectionless",
    "UDPv6": "connectionless",
    "UDP-Lite": "connectionless",
    "UDPLITEv6": "connectionless",
    "PING": "connectionless",
    "PINGv6": "connectionless",
    "RAW": "connectionless",
    "RAWv6": "connectionless",
    "PACKET": "connectionless",
    "NETLINK": "netlink",
    "UNIX": "unix",
    "UNIX-STREAM": "unix",
}


def descriptor(world: World, process: SeenProcess, one: SeenDescriptor) -> tuple[str, str]:
    """Return the kind of a descriptor, and its description."""
    match one.link.kind:
        case "socket":
            return _socket(world, one)
        case "pipe":
            return "pipe", "pipe"
        case "namespace":
            return "namespace", f"{one.link.name} namespace"
        case "anon":
            return _anonymous(world, process, one)
        case "memfd":
            return _memory_file(world, one)
        case "path":
            return _path(world, process, one)
    return "kernel_object", one.link.name


def lost(process: SeenProcess) -> Iterator[tuple[SeenDescriptor, str]]:
    """Yield epoll instances that poll a descriptor closed in the process but open in another.

    Descriptors without an inode of their own (events, timers) cannot be distinguished; they are not
    reported.
    """
    numbers = {one.number for one in process.descriptors}
    inodes = {one.link.inode for one in process.descriptors if one.link.inode}
    inodes |= {one.file.inode for one in process.descriptors if one.file is not None}
    unnumbered = any(one.link.kind == "anon" for one in process.descriptors if one.link.name != "eventpoll")
    for one in process.descriptors:
        if one.link.name != "eventpoll" or one.info is None:
            continue
        for target in one.info.watched:
            if target.fd not in numbers and target.inode not in inodes and not unnumbered:
                yield one, f"eventpoll with closed descriptor {target.fd}"
                break


def _anonymous(world: World, process: SeenProcess, one: SeenDescriptor) -> tuple[str, str]:
    name = one.link.name
    if name in _WAITING:
        return "waiting", name
    if name in ("inotify", "fanotify"):
        return _watch(world, process, one)
    if name == "pidfd":
        return _pidfd(world, one)
    return ("io_uring", name) if name == "io_uring" else ("kernel_object", name)


def _pidfd(world: World, one: SeenDescriptor) -> tuple[str, str]:
    pid = one.info.pid if one.info is not None else None
    if one.info is not None and one.info.flags & os.O_EXCL:  # PIDFD_THREAD, see pidfd_open(2)
        return "pidfd_outside", "pidfd of a thread"
    if pid is None or pid == -1:
        return "pidfd", "pidfd of a process that has ended"
    if pid in world.pids:
        inner = world.pids[pid]
        return "pidfd", f"pidfd of process {inner}" if inner else "pidfd of a process that has ended"
    return "pidfd_outside", "pidfd of a process outside"


def _watch(world: World, process: SeenProcess, one: SeenDescriptor) -> tuple[str, str]:
    info = one.info
    if info is None:
        return "watch", one.link.name
    unknown = sum(
        (device, inode) in world.places.engine_files or device in world.places.proc
        for device, inode in info.watches()
    )
    count = info.count("inotify wd") + info.count("fanotify ino") + info.count("fanotify mnt_id")
    what = f"{one.link.name}, {count} watch{'es' if count != 1 else ''}"
    if unknown:
        return "watch_gone", f"{what}, {unknown} of files missing in a copy"
    if one.unread:
        return "watch_unread", what
    files = (other.file for other in process.descriptors if other.file is not None)
    deleted = {(file.device, file.inode) for file in files if file.kind == "file" and not file.links}
    ending = sum(watched in deleted for watched in info.watches())
    return ("watch_deleted", f"{what}, {ending} of deleted files") if ending else ("watch", what)


def _memory_file(world: World, one: SeenDescriptor) -> tuple[str, str]:
    if one.file is not None and world.places.memory and one.file.device != world.places.memory:
        return "nowhere", f"memory file {one.link.name} of huge pages"
    return "memory_file", f"memory file {one.link.name}"


def _path(world: World, process: SeenProcess, one: SeenDescriptor) -> tuple[str, str]:
    path, file = one.link.name, one.file
    by_name = one.by_name or (one.info is not None and one.info.access == "path")
    if file is not None and file.kind == "device":
        kind, what = _special(path, file.node)
        return ("path_only", what) if by_name and kind == "terminal" else (kind, what)
    if file is not None and file.kind == "socket file" and by_name:
        return "path_only", path
    if path.startswith("/proc/"):
        return _proc(path, one.info.flags if one.info is not None else os.O_RDONLY)
    return _unreachable(world, process, one) or _regular(world, one)


def _unreachable(world: World, process: SeenProcess, one: SeenDescriptor) -> tuple[str, str] | None:
    """Judge a file outside a copy's mounts; None if it is inside."""
    if one.info is None or not one.info.mount_id:
        return None
    mount = world.places.mounts.get(one.info.mount_id)
    if mount is None:
        # A process in its own mount namespace is a finding already.
        elsewhere = process.namespaces.get("mnt", 0) not in (0, world.root_namespaces.get("mnt"))
        return None if elsewhere else ("nowhere", one.link.name)
    # Files in memory are kept separately and restored into the folder of the same name.
    if mount.id not in world.places.inner or mount.kind == "tmpfs":
        return None
    kind = "fuse_file" if mount.kind.startswith("fuse") else "inner_mount"
    return kind, f"{one.link.name} ({mount.kind}, mounted at {mount.point})"


def _regular(world: World, one: SeenDescriptor) -> tuple[str, str]:
    path, file, info = one.link.name, one.file, one.info
    if file is None:
        return "file", path
    if not file.links:
        if file.kind != "file":
            return "deleted_file", path
        kind = "deleted_file_large" if file.bytes > GHOST_LIMIT else "deleted_file"
        return kind, f"{path} ({file.bytes >> 20} MiB)" if file.bytes >> 20 else path
    if (file.device, file.inode) in world.places.engine_files:
        return "engine_file", path
    if info is not None and info.mount_id in world.places.host:
        return "mounted_file", path
    if file.kind == "fifo":
        return "fifo", path
    held = [lock for lock in info.locks if not lock.waits] if info is not None else []
    return ("lock", f"{path} ({held[0].mode} {held[0].kind} lock)") if held else ("file", path)


def _special(path: str, node: tuple[int, int]) -> tuple[str, str]:
    # /dev/tty stands for a terminal of the session, which the copy has open in its place.
    if node[0] in _PTS or node[0] == _TERMINALS or node[0] == 4:
        return "terminal", path
    if node[0] == _MEMORY:
        return "device", path
    return "device_hardware", path


def _proc(path: str, flags: int) -> tuple[str, str]:
    """Judge a file of /proc: a process's is reopened by its pid, but threads are created only later."""
    if outside.leads_out(path, flags):
        return "proc_file_inside", path
    thread = _THREAD.match(path)
    return ("proc_file_gone" if thread is not None and thread[1] != thread[2] else "proc_file"), path


def _socket(world: World, one: SeenDescriptor) -> tuple[str, str]:
    """Return the kind of a socket, and its description."""
    found = world.network.sockets.get(one.link.inode)
    if one.link.inode in world.network.unread:
        return "netlink_unread", "netlink socket"
    # The kernel lists the TCP socket below a multipath one by the same inode number.
    if found is None or one.family.startswith("MPTCP"):
        return _UNLISTED.get(one.family, "socket_foreign" if one.family else "connectionless"), (
            f"{one.family or 'unknown'} socket"
        )
    if found.protocol.startswith("unix"):
        return _unix(world, found)
    if found.state == "listening":
        return "listener", f"{found.protocol} {found.local_end}, listening"
    if found.protocol.startswith("tcp") and found.remote_end:
        return _connection(world, found)
    what = f"{found.protocol} {found.local_end}".strip()
    # Also while one is on its way to a network card, which a later look does not find any more.
    corked = found.protocol.startswith("udp") and found.send_queue
    return "datagram_corked" if corked else "connectionless", what


def _connection(world: World, found: SocketRow) -> tuple[str, str]:
    what = f"{found.protocol} {found.local_end} -> {found.remote_end}"
    if (found.remote_end, found.local_end) not in world.network.ends:
        return "connection_outside", what
    if (found.remote_end, found.local_end) in world.network.unaccepted:
        return "connection_waiting", what
    return "loopback", what


def _unix(world: World, found: SocketRow) -> tuple[str, str]:
    what = f"{found.protocol} {found.local_end}".strip()
    if found.inode in world.network.astray:
        return "socket_renamed", what
    if found.state == "listening":
        return ("unix_waiting", what) if _closed_early(found) else ("listener", what)
    if found.peer:
        other = world.network.sockets.get(found.peer)
        # An accepted end belongs to the namespace of the one that connected, wherever it is held.
        known = other is not None and found.peer not in world.network.outside
        on_its_way = known and world.network.in_flight
        if found.peer in world.network.held or on_its_way:
            return "unix", what
        name = other.local_end if other is not None else ""
        return "unix_outside", f"{what} -> {name or 'outside'}"
    if found.protocol == "unix datagram" or found.state != "established":
        return ("unix_unread" if found.receive_queue and found.local_end else "unix"), what
    return _without_peer(world, found, what)


def _closed_early(found: SocketRow) -> bool:
    """Check for a connection that was closed before it was accepted: it no longer has an inode number."""
    return 0 in found.waiting


def _without_peer(world: World, found: SocketRow, what: str) -> tuple[str, str]:
    """Judge a connection whose other end has no inode: not accepted yet, closed, or in another namespace."""
    listener = next((one for one in world.network.listeners if found.inode in one.waiting), None)
    if listener is None:
        return ("unix_outside", f"{what} -> outside") if not found.closed else ("unix", what)
    if found.send_queue:
        return "unix_waiting", f"{what} -> {listener.local_end}"
    return "unix", what
