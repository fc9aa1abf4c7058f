"""Sockets of other processes, by descriptors of our own (pidfd_getfd(2)): they are the same sockets."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator

from holdfast.snapshots.checkpointer.proc import walk

_SYS_PIDFD_GETFD = 438


def sockets(root: int) -> Iterator[tuple[int, int, int]]:
    """Process, descriptor and inode of all sockets in a tree; one that is shared comes several times."""
    for pid in walk.tree(root).pids:
        for fd in walk.descriptors(pid):
            link = walk.link_of(pid, fd)
            if link is not None and link.kind == "socket":
                yield pid, fd, link.inode


def borrow(pid: int, fd: int) -> socket.socket:
    """The socket of a process; closing ours leaves theirs open. Raises OSError."""
    process = os.pidfd_open(pid)
    try:
        copy = ctypes.CDLL(None, use_errno=True).syscall(_SYS_PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=copy)
