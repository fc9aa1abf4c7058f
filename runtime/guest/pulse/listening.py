"""The TCP ports on which processes listen.

Queries the sockets and reads the links of open files. The files are read again only when a socket started or
stopped listening, or when the query is about other processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.procfs import descriptor_links, socket_tables
from holdfast.runtime.guest.pulse import access, sockets

_TABLES = ("tcp", "tcp6")


class Listening:
    """The last answer, kept for as long as it holds."""

    def __init__(self) -> None:
        self._asked: tuple[frozenset[int], dict[int, int]] | None = None
        self._found: dict[int, tuple[int, ...]] = {}

    def ports(self, pids: frozenset[int]) -> Mapping[int, tuple[int, ...]]:
        """Return the ports of those of the processes that listen on any."""
        listening = listening_sockets() if pids else {}
        if (pids, listening) != self._asked:
            self._asked = (pids, listening)
            found = {pid: _ports_of(pid, listening) for pid in pids} if listening else {}
            self._found = {pid: ports for pid, ports in found.items() if ports}
        return self._found


def listening_sockets() -> dict[int, int]:
    """Return the port of each listening socket, by inode."""
    if (found := sockets.tcp(1 << socket_tables.LISTENING)) is None:
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
