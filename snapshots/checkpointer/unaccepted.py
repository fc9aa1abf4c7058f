"""Finds TCP connections within a session that no server has accepted yet.

The kernel keeps such a connection in the queue of its listener, where no descriptor leads to it. So CRIU
cannot read it, and in a copy its client finds it closed. In a running session, a server accepts it within
microseconds, so a capture waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer.survey import diag

# A closed socket has no descriptor either, but none of these states: it has said its end.
_OPEN = ("established", "close_wait")


def are_there(process: int) -> bool:
    """Check whether there are any in the network namespace of a process."""
    return bool(among(diag.listed(process)))


def among(sockets: Iterable[SocketRow]) -> list[SocketRow]:
    """Return those whose client is also among the sockets. Pure."""
    connected = [one for one in sockets if one.remote_end and one.protocol.startswith("tcp")]
    clients = {(one.local_end, one.remote_end) for one in connected if one.inode}
    return [
        one
        for one in connected
        if not one.inode and one.state in _OPEN and (one.remote_end, one.local_end) in clients
    ]
