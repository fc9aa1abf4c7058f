"""Delivers data that peers in the session sent before they hung up.

A process can write, close and end while most of it still waits in the kernel for the reader to make room.
No descriptor leads to such an end of a connection any more, so it cannot be captured; copies would read the
end of the stream too early. So the reader's buffer is made large enough shortly before the capture. The
rest comes over then, on its own, and is captured as unread data.

Knows the kernel's tables of sockets and descriptors of other processes; nothing of CRIU.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from holdfast.procfs import socket_tables, walk
from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.ground import pidfd_files

PATIENCE = 0.5
"""Seconds. It takes milliseconds unless the machine has far too much to do."""
POLL = 0.005
LARGEST = 64 << 20
"""Bytes a buffer is made large enough for."""
_TABLES = ("tcp", "tcp6")
# The closing end's states in which it still has something to send. The end itself counts as one byte.
_HUNG_UP = ("fin_wait1", "closing", "last_ack")
_FIN = 1

# asm-generic/socket.h. The kernel doubles the number, for what it needs itself (socket(7)).
_SO_RCVBUFFORCE = 33


@dataclass(frozen=True, slots=True)
class ClosedReader:
    """A socket whose other end was closed with bytes left to send."""

    inode: int
    waiting: int


def readers(table: Iterable[SocketRow]) -> list[ClosedReader]:
    """Return the sockets of a namespace that have not received all data sent to them."""
    rows = list(table)
    ends = {(row.local_end, row.remote_end): row for row in rows if row.inode}
    found = []
    for row in rows:
        if row.inode or row.state not in _HUNG_UP or row.send_queue <= _FIN:
            continue
        reader = ends.get((row.remote_end, row.local_end))
        if reader is not None:
            found.append(ClosedReader(reader.inode, row.send_queue + reader.receive_queue))
    return found


def deliver(root: int) -> None:
    """Deliver all of it to the processes of a tree, if that is possible immediately."""
    # To list all sockets takes the kernel milliseconds; it counts those that were left behind.
    if b" orphan 0 " in (walk.read(f"{root}/net/sockstat") or b""):
        return
    waiting = readers(_table(root))
    if not waiting:
        return
    room = {reader.inode: min(reader.waiting, LARGEST) for reader in waiting}
    for pid, fd, inode in pidfd_files.sockets(root):
        if inode in room:
            with suppress(OSError):
                _make_room(pid, fd, room.pop(inode))
    deadline = time.monotonic() + PATIENCE
    while readers(_table(root)) and time.monotonic() < deadline:
        time.sleep(POLL)


def _table(pid: int) -> Iterator[SocketRow]:
    for name in _TABLES:
        yield from socket_tables.internet(walk.read(f"{pid}/net/{name}") or b"", name)


def _make_room(pid: int, fd: int, size: int) -> None:
    with pidfd_files.borrow(pid, fd) as reader:
        before = reader.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        if before < 2 * size:
            reader.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
        # A read, even a peek, makes the kernel announce the free space to the other end.
        reader.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
