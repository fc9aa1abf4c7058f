"""Parses /proc/PID/net/{tcp,tcp6,udp,udp6,udplite,udplite6,unix,netlink}, see proc_pid_net(5). Pure.

The tables are those of the process's network namespace, sockets of others in it included.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

# By number, see tcp_states.h of Linux.
TCP_STATES = (
    "unknown",
    "established",
    "syn_sent",
    "syn_received",
    "fin_wait1",
    "fin_wait2",
    "time_wait",
    "closed",
    "close_wait",
    "last_ack",
    "listening",
    "closing",
    "syn_received",
)
UNIX_TYPES = {1: "stream", 2: "datagram", 5: "seqpacket"}
_UNIX_STATES = {1: "unconnected", 2: "connecting", 3: "connected", 4: "disconnecting"}
# SO_ACCEPTCON in the column Flags.
_LISTENS = 0x10000


@dataclass(frozen=True, slots=True)
class Internet:
    """A TCP or UDP socket. Addresses are textual, IPv4 in IPv6 as it was; a port of 0 is none.

    Inode 0: no descriptor leads to it (not accepted yet, or closed). Queues are in bytes; of a TCP listener
    `receive_queue` counts connections that nobody accepted yet.
    """

    protocol: str
    state: str
    local: str
    local_port: int
    remote: str
    remote_port: int
    send_queue: int
    receive_queue: int
    uid: int
    inode: int


@dataclass(frozen=True, slots=True)
class Unix:
    """A unix socket; a path that begins with @ is in the abstract namespace, an empty one is none."""

    kind: str
    state: str
    path: str
    inode: int


def internet(data: bytes, protocol: str) -> Iterator[Internet]:
    """The sockets of a table; `protocol` is its name."""
    for line in data.splitlines()[1:]:
        words = line.decode("ascii", "replace").split()
        if len(words) < 10:
            continue
        try:
            local, remote = address(words[1]), address(words[2])
            sending, _, received = words[4].partition(":")
            number = int(words[3], 16)
            yield Internet(
                protocol,
                state(protocol, number),
                *local,
                *remote,
                int(sending, 16),
                int(received, 16),
                int(words[7]),
                int(words[9]),
            )
        except (ValueError, IndexError):
            continue


def state(protocol: str, number: int) -> str:
    """A state in words. A UDP socket is bound or connected; nothing else is known of it."""
    if protocol.startswith("tcp"):
        return TCP_STATES[number] if number < len(TCP_STATES) else TCP_STATES[0]
    return "connected" if number == 1 else "bound"


def unix(data: bytes) -> Iterator[Unix]:
    """The unix sockets of a table."""
    for line in data.splitlines()[1:]:
        words = line.split(None, 7)
        if len(words) < 7:
            continue
        try:
            flags, kind, number, inode = (
                int(words[3], 16),
                int(words[4], 16),
                int(words[5], 16),
                int(words[6]),
            )
        except ValueError:
            continue
        path = words[7].decode("utf-8", "replace") if len(words) > 7 else ""
        found = "listening" if flags & _LISTENS else _UNIX_STATES.get(number, "unknown")
        yield Unix(UNIX_TYPES.get(kind, "other"), found, path, inode)


def netlink(data: bytes) -> Iterator[tuple[int, int]]:
    """Inode and bytes not read yet of each socket in the table netlink."""
    for line in data.splitlines()[1:]:
        words = line.split()
        if len(words) >= 10 and words[4].isdigit() and words[9].isdigit():
            yield int(words[9]), int(words[4])


@lru_cache(4096)
def address(text: str) -> tuple[str, int]:
    """Address and port of a column such as 0100007F:1F90: words of four bytes in host order."""
    host, _, port = text.partition(":")
    data = bytes.fromhex(host)
    # All machines that sessions run on are little-endian; so are the words.
    packed = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return str(ipaddress.ip_address(packed)), int(port, 16)
