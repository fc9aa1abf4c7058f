"""A socket as the kernel lists it, and parsers of the lists in /proc/PID/net, see proc_pid_net(5). Pure.

The tables are those of the process's network namespace, sockets of other processes in it included.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

LISTENING = 10
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
"""By number, see tcp_states.h of Linux."""
UNIX_TYPES = {1: "stream", 2: "datagram", 5: "seqpacket"}
_UNIX_STATES = {1: "unconnected", 2: "connecting", 3: "connected", 4: "disconnecting"}
_ACCEPTS = 0x10000
"""SO_ACCEPTCON in the column Flags."""


class SocketRow(NamedTuple):
    """A socket of a network namespace. (A frozen dataclass takes eight times as long to make.)

    `protocol` is `tcp`, `tcp6`, `udp`, … or `unix stream`, `unix datagram`, … Addresses are textual, IPv4 in
    IPv6 as it is; a port of 0 means that there is none. `local` of a unix socket is its path; one that begins
    with @ is in the abstract namespace, and an empty one means that it has no name.

    Queues are in bytes; `receive_queue` of a TCP listener counts connections that were not accepted yet.
    Inode 0: no descriptor leads to it (not accepted yet, or closed). The rest is known of unix sockets by
    sock_diag(7) alone: `peer` is the inode of the other end, 0 if there is none or it is not accepted yet;
    `waiting` are the inodes of connections that a listener did not accept yet, 0 for one whose other end is
    closed; `closed` means shut down in both directions; `file` is the inode (32 bits) and the device of its
    file, as the kernel has them.
    """

    protocol: str
    state: str
    local: str = ""
    local_port: int = 0
    remote: str = ""
    remote_port: int = 0
    send_queue: int = 0
    receive_queue: int = 0
    uid: int = 0
    inode: int = 0
    peer: int = 0
    waiting: tuple[int, ...] = ()
    closed: bool = False
    file: tuple[int, int] = (0, 0)

    @property
    def local_end(self) -> str:
        """The local address with its port, or the path; empty if there is none."""
        return self.local if self.protocol.startswith("unix") else _end(self.local, self.local_port)

    @property
    def remote_end(self) -> str:
        """The remote address with its port; empty if there is none."""
        return _end(self.remote, self.remote_port)


def internet(data: bytes, protocol: str) -> Iterator[SocketRow]:
    """Yield the sockets of a table; `protocol` is its name."""
    for line in data.splitlines()[1:]:
        words = line.decode("ascii", "replace").split()
        if len(words) < 10:
            continue
        try:
            sending, _, received = words[4].partition(":")
            yield SocketRow(
                protocol,
                state(protocol, int(words[3], 16)),
                *address(words[1]),
                *address(words[2]),
                int(sending, 16),
                int(received, 16),
                int(words[7]),
                int(words[9]),
            )
        except ValueError:
            continue


def state(protocol: str, number: int) -> str:
    """Return a state in words. A UDP socket is bound or connected; nothing else is known of it."""
    if protocol.startswith("udp"):
        return "connected" if number == 1 else "bound"
    return TCP_STATES[number] if number < len(TCP_STATES) else TCP_STATES[0]


def unix(data: bytes) -> Iterator[SocketRow]:
    """Yield the unix sockets of a table."""
    for line in data.splitlines()[1:]:
        words = line.split(None, 7)
        if len(words) < 7:
            continue
        try:
            flags, kind, number = (int(word, 16) for word in words[3:6])
            inode = int(words[6])
        except ValueError:
            continue
        yield SocketRow(
            f"unix {UNIX_TYPES.get(kind, 'other')}",
            "listening" if flags & _ACCEPTS else _UNIX_STATES.get(number, "unknown"),
            words[7].decode("utf-8", "replace") if len(words) > 7 else "",
            inode=inode,
        )


def netlink(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield inode and unread bytes of each socket in the table netlink."""
    for line in data.splitlines()[1:]:
        words = line.split()
        if len(words) >= 10 and words[4].isdigit() and words[9].isdigit():
            yield int(words[9]), int(words[4])


@lru_cache(4096)
def address(text: str) -> tuple[str, int]:
    """Return address and port of a column such as 0100007F:1F90: words of four bytes in host order.

    Raises:
        ValueError: it is not one.
    """
    import ipaddress  # only what lists sockets needs it

    host, _, port = text.partition(":")
    data = bytes.fromhex(host)
    # All machines that sessions run on are little-endian; so are the words.
    packed = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return str(ipaddress.ip_address(packed)), int(port, 16)


@lru_cache(4096)
def unmapped(host: str) -> str:
    """Return an address, IPv4 in IPv6 as IPv4: the other end of that connection may be an IPv4 socket."""
    import ipaddress

    mapped = ipaddress.IPv6Address(host).ipv4_mapped if ":" in host else None
    return host if mapped is None else str(mapped)


def _end(host: str, port: int) -> str:
    if not port:
        return ""
    plain = unmapped(host)
    return f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}"
