"""Which of some processes listen on which TCP ports.

It asks for the sockets and reads the links of open files. The files are looked at again only when a socket
began or ended to listen, or when other processes are asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast.runtime.guest.pulse import access, sock_diag

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = b"0A"
_SOCKET = "socket:["


class Listening:
    """Remembers the last answer for as long as it holds."""

    def __init__(self) -> None:
        self._asked: tuple[frozenset[int], dict[int, int]] | None = None
        self._found: dict[int, tuple[int, ...]] = {}

    def ports(self, pids: frozenset[int]) -> Mapping[int, tuple[int, ...]]:
        """Return the ports of those of the processes that listen on any."""
        sockets = listening_sockets() if pids else {}
        if (pids, sockets) != self._asked:
            self._asked = (pids, sockets)
            found = {pid: _ports_of(pid, sockets) for pid in pids} if sockets else {}
            self._found = {pid: ports for pid, ports in found.items() if ports}
        return self._found


def listening_sockets() -> dict[int, int]:
    """Return the port of each listening socket, by inode."""
    if (listening := sock_diag.tcp(1 << sock_diag.LISTENING)) is not None:
        return {one.inode: one.local_port for one in listening}
    found = {}
    for path in _TABLES:
        try:
            lines = Path(path).read_bytes().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # sl, local address, remote address, state, ..., inode: see proc_net_tcp(5).
            fields = line.split(None, 10)
            if len(fields) > 9 and fields[3] == _LISTEN:
                found[int(fields[9])] = int(fields[1].rpartition(b":")[2], 16)
    return found


def _ports_of(pid: int, sockets: Mapping[int, int]) -> tuple[int, ...]:
    if (user := access.owner(pid)) is None:
        return ()
    with access.reading_as(*user):
        links = access.links(pid).values()
    inodes = (int(link[len(_SOCKET) : -1]) for link in links if link.startswith(_SOCKET))
    return tuple(sorted({sockets[inode] for inode in inodes if inode in sockets}))
