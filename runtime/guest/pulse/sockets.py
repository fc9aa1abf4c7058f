"""Sockets as the pulse reports them: the query for TCP sockets, all rows, the ports processes listen on.

To find who listens, the links of open files are read again only when a socket started or stopped listening,
or when the query is about other processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.procfs import descriptor_links, sock_diag, socket_tables
from holdfast.procfs.socket_tables import SocketRow
from holdfast.runtime.guest.pulse import access

_PATIENCE = 0.5
_TABLES = ("tcp", "tcp6")


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


class ListeningSockets:
    """The last answer, kept for as long as it holds."""

    def __init__(self) -> None:
        self._asked: tuple[frozenset[int], dict[int, int]] | None = None
        self._found: dict[int, tuple[int, ...]] = {}

    def ports(self, pids: frozenset[int]) -> Mapping[int, tuple[int, ...]]:
        """Return the ports of listening processes among these."""
        listening = listening_sockets() if pids else {}
        if (pids, listening) != self._asked:
            self._asked = (pids, listening)
            found = {pid: _ports_of(pid, listening) for pid in pids} if listening else {}
            self._found = {pid: ports for pid, ports in found.items() if ports}
        return self._found


def listening_sockets() -> dict[int, int]:
    """Return the port of each listening socket, by inode."""
    if (found := tcp(1 << socket_tables.LISTENING)) is None:
        found = []
        for name in _TABLES:
            with suppress(OSError):
                found += socket_tables.internet(Path("/proc/net", name).read_bytes(), name)
    return {one.inode: one.local_port for one in found if one.state == "listening"}


def _ports_of(pid: int, listening: Mapping[int, int]) -> tuple[int, ...]:
    if (user := access.owner(pid)) is None:
        return ()
    with access.reading_as(*user):
        links = [descriptor_links.parse(target) for target in access.links(pid).values()]
    inodes = {link.inode for link in links if link.kind == "socket"}
    return tuple(sorted({listening[inode] for inode in inodes & listening.keys()}))
