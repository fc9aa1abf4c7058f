"""Finds connections within a session that no server has accepted yet.

The kernel keeps such a connection in the queue of its listener, where no descriptor leads to it. So CRIU
cannot read it. In a running session, a server accepts it within microseconds, so a capture waits for an
instant at which there is none.

Over TCP, a client finds it closed in a copy where there is one all the same. Over a unix socket, one that
carries data, or whose client is gone, cannot be captured at all: where a server accepts nothing the capture
is refused, and where it only has much to do an instant is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.procfs import walk
from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.ground import diag, tree

# A closed socket has no descriptor either, but none of these states: it has said its end.
_OPEN = ("established", "close_wait")
_LATE = "connections to a unix socket always wait to be accepted"


class Unaccepted(NamedTuple):
    """What waits at an instant: whether TCP connections do, and unix listeners with what blocks a capture."""

    over_tcp: bool = False
    blocked: tuple[SocketRow, ...] = ()


def look(process: int) -> Unaccepted:
    """Look into the network namespace of a process."""
    sockets = diag.listed(process)
    return Unaccepted(bool(among(sockets)), tuple(blocked(sockets)))


def among(sockets: Iterable[SocketRow]) -> list[SocketRow]:
    """Return the connections over TCP whose client is also among the sockets. Pure."""
    connected = [one for one in sockets if one.remote_end and one.protocol.startswith("tcp")]
    clients = {(one.local_end, one.remote_end) for one in connected if one.inode}
    return [
        one
        for one in connected
        if not one.inode and one.state in _OPEN and (one.remote_end, one.local_end) in clients
    ]


def blocked(sockets: Sequence[SocketRow]) -> list[SocketRow]:
    """Return the unix listeners with connections that carry data or whose client is gone. Pure."""
    carrying = {one.inode for one in sockets if one.send_queue and one.protocol.startswith("unix")}
    return [one for one in sockets if any(not inode or inode in carrying for inode in one.waiting)]


def described(listeners: Iterable[SocketRow], pids: Iterable[int]) -> str:
    """Say in a line for the log which listener blocks a capture, and who holds it; `pids` are the host's."""
    first = next(iter(listeners))
    for pid in pids:
        for number in walk.descriptors(pid):
            link = walk.link_of(pid, number)
            if link is not None and link.kind == "socket" and link.inode == first.inode:
                return f"{_LATE} ({first.local_end}) for fd={number} on pid {tree.inner_pid_of(pid)}"
    return f"{_LATE} ({first.local_end})"
