"""Sockets as the pulse reports them: the query for TCP sockets, and the rows of all."""

from __future__ import annotations

from typing import Any

from holdfast.procfs import sock_diag, socket_tables
from holdfast.procfs.socket_tables import SocketRow

_PATIENCE = 0.5


def tcp(states: int = sock_diag.ALL) -> list[SocketRow] | None:
    """Return the TCP sockets in some states, given as bits.

    None if the kernel is without sock_diag(7), or a profile refuses it: /proc/net has them as well.
    """
    try:
        with sock_diag.opened(_PATIENCE) as link:
            return list(sock_diag.tcp(link, states))
    except OSError:
        return None


def row(one: SocketRow) -> dict[str, Any]:
    """Return the report of a socket. Pure."""
    protocol, _, kind = one.protocol.partition(" ")
    if kind:
        return {
            "protocol": protocol,
            "state": one.state,
            "type": kind,
            "path": one.local or None,
            "inode": one.inode,
        }
    return {
        "protocol": protocol,
        "state": one.state,
        "local": socket_tables.unmapped(one.local),
        "local_port": one.local_port,
        "remote": socket_tables.unmapped(one.remote) if one.remote_port else None,
        "remote_port": one.remote_port or None,
        "send_queue": one.send_queue,
        "receive_queue": one.receive_queue,
        "uid": one.uid,
        "inode": one.inode,
    }
