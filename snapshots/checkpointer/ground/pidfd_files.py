"""Open files of other processes, by our own descriptors (pidfd_getfd(2)): they are the same files."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct
import termios
from collections.abc import Iterator

from holdfast.procfs import walk

_SYS_PIDFD_GETFD = 438
_SYS_KCMP = 312 if platform.machine() == "x86_64" else 272
_KCMP_FILE = 0


def sockets(root: int) -> Iterator[tuple[int, int, int]]:
    """Process, descriptor and inode of all sockets in a tree; a shared one comes several times."""
    for pid in walk.tree(root).pids:
        for fd in walk.descriptors(pid):
            link = walk.link_of(pid, fd)
            if link is not None and link.kind == "socket":
                yield pid, fd, link.inode


def borrow(pid: int, fd: int) -> socket.socket:
    """Return a process's socket; closing ours leaves theirs open.

    Raises:
        OSError: it has been closed.
    """
    return socket.socket(fileno=copy(pid, fd))


def copy(pid: int, fd: int) -> int:
    """Return a copy of a process's descriptor, to be closed by the caller.

    Raises:
        OSError: it has been closed.
    """
    process = os.pidfd_open(pid)
    try:
        found = ctypes.CDLL(None, use_errno=True).syscall(_SYS_PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    if found < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return int(found)


def queue(pid: int, fd: int) -> int:
    """Return a copy of a process's inotify descriptor, to be closed by the caller.

    Raises:
        OSError: it has been closed, or is not one.
    """
    found = copy(pid, fd)
    if os.readlink(f"/proc/self/fd/{found}") != "anon_inode:inotify":  # noqa: PTH115 - of no file
        os.close(found)
        raise OSError(f"descriptor {fd} of process {pid} is not an inotify")
    return found


def unread(queue: int) -> int:
    """Return the bytes of events that wait in an inotify.

    Raises:
        OSError: they cannot be read.
    """
    return int(struct.unpack("i", fcntl.ioctl(queue, termios.FIONREAD, bytes(4)))[0])


def drain(queue: int) -> None:
    """Read all waiting events of an inotify. Raises OSError."""
    while waiting := unread(queue):
        os.read(queue, waiting)


def is_same(pid: int, fd: int, ours: int) -> bool:
    """Check whether a descriptor of a process and one of ours refer to the same open file (kcmp(2))."""
    return bool(ctypes.CDLL(None).syscall(_SYS_KCMP, pid, os.getpid(), _KCMP_FILE, fd, ours) == 0)
