"""Sockets as the pulse tells of them. Pure: the tables of `/proc/net` in, rows out.

See proc_pid_net(5). The tables are those of the network namespace, which is the session's own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

MAX_ROWS = 2000
"""Of one table; what is left out is counted."""
_TCP = {
    "01": "established",
    "02": "syn_sent",
    "03": "syn_received",
    "04": "fin_wait1",
    "05": "fin_wait2",
    "06": "time_wait",
    "07": "closed",
    "08": "close_wait",
    "09": "last_ack",
    "0A": "listening",
    "0B": "closing",
    "0C": "syn_received",
}
_UNIX_TYPES = {"0001": "stream", "0002": "datagram", "0005": "seqpacket"}
_UNIX_STATES = {"01": "unconnected", "02": "connecting", "03": "connected", "04": "disconnecting"}
_LISTENING_FLAG = 0x10000
"""SO_ACCEPTCON in the column Flags."""


def internet(data: bytes, protocol: str) -> Iterator[dict[str, Any]]:
    """Yield the sockets of a table of tcp, tcp6, udp or udp6."""
    for line in data.splitlines()[1:]:
        words = line.decode("ascii", "replace").split()
        if len(words) < 10:
            continue
        try:
            local, remote = address(words[1]), address(words[2])
            sending, _, received = words[4].partition(":")
            yield {
                "protocol": protocol,
                "state": _TCP.get(words[3], "unknown") if protocol.startswith("tcp") else _udp(words[3]),
                "local": local[0],
                "local_port": local[1],
                "remote": remote[0] if remote[1] else None,
                "remote_port": remote[1] or None,
                "send_queue": int(sending, 16),
                "receive_queue": int(received, 16),
                "uid": int(words[7]),
                "inode": int(words[9]),
            }
        except (ValueError, IndexError):
            continue


def unix(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the unix sockets; those in the abstract namespace have a path that begins with @."""
    for line in data.splitlines()[1:]:
        words = line.split(None, 7)
        if len(words) < 7:
            continue
        try:
            flags, inode = int(words[3], 16), int(words[6])
        except ValueError:
            continue
        state = _UNIX_STATES.get(words[5].decode("ascii", "replace"), "unknown")
        yield {
            "protocol": "unix",
            "state": "listening" if flags & _LISTENING_FLAG else state,
            "type": _UNIX_TYPES.get(words[4].decode("ascii", "replace"), "other"),
            "path": words[7].decode("utf-8", "replace") if len(words) > 7 else None,
            "inode": inode,
        }


@lru_cache(1024)
def address(text: str) -> tuple[str, int]:
    """Return address and port of a column such as 0100007F:1F90: words of four bytes in host order."""
    host, _, port = text.partition(":")
    data = bytes.fromhex(host)
    # All machines that sessions run on are little-endian; so are the words.
    packed = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    found = ipaddress.ip_address(packed)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found), int(port, 16)


def _udp(state: str) -> str:
    """An UDP socket is bound or connected; nothing else is known of it."""
    return "connected" if state == "01" else "bound"
