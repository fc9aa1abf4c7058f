"""The TCP sockets of the session, asked of the kernel by netlink, see sock_diag(7).

The request and the parsers are pure; `tcp` is the driver. /proc/net/tcp tells the same, but walks a table of
the whole machine for each family: 7 ms where this takes 0.3 ms, and 0.03 ms if only those that listen are
wanted. A kernel without it, or a profile that refuses it, gives None.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

LISTENING = 10
ALL = 0xFFFFFF
STATES = (
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
# The older of two requests for TCP: it takes both families in one walk (family 0). See inet_diag.h.
_TCPDIAG_GETSOCK = 18
_SOCK_DIAG = 4
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBB48xII")
# family, state, two more; ports, addresses; interface and cookie; timer, queues, user and inode.
_TOLD = struct.Struct("=BBxx2s2s16s16s12xIIIII")
_PATIENCE = 0.5


class Socket(NamedTuple):
    """One of them. Of a listener, `received` are connections not accepted yet, `sent` is how many may be."""

    family: int
    state: int
    local: str
    local_port: int
    remote: str
    remote_port: int
    received: int
    sent: int
    uid: int
    inode: int


def request(states: int) -> bytes:
    """Return the question for all sockets in some states, given as bits."""
    body = _ASKED.pack(0, 0, 0, 0, states, 0)
    header = _HEADER.pack(_HEADER.size + len(body), _TCPDIAG_GETSOCK, _REQUEST | _DUMP, 1, 0)
    return header + body


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message of a datagram."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def parse(body: bytes) -> Socket | None:
    """Return the socket a message tells of."""
    if len(body) < _TOLD.size:
        return None
    family, state, sport, dport, source, target, _, received, sent, uid, inode = _TOLD.unpack_from(body)
    return Socket(
        family,
        state,
        _address(family, source),
        int.from_bytes(sport),
        _address(family, target),
        int.from_bytes(dport),
        received,
        sent,
        uid,
        inode,
    )


def tcp(states: int = ALL) -> list[Socket] | None:
    """Return the TCP sockets in some states; None if the kernel does not tell."""
    found: list[Socket] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as link:
            link.settimeout(_PATIENCE)
            link.send(request(states))
            while True:
                for kind, body in messages(link.recv(1 << 16)):
                    if kind == _DONE:
                        return found
                    if kind == _ERROR:
                        return None
                    if (one := parse(body)) is not None:
                        found.append(one)
    except OSError:
        return None


def rows(found: list[Socket]) -> Iterator[dict[str, Any]]:
    """Yield them in the form of `sockets.internet`."""
    for one in found:
        listens = one.state == LISTENING
        yield {
            "protocol": "tcp6" if one.family == socket.AF_INET6 else "tcp",
            "state": STATES[one.state] if one.state < len(STATES) else STATES[0],
            "local": one.local,
            "local_port": one.local_port,
            "remote": one.remote if one.remote_port else None,
            "remote_port": one.remote_port or None,
            "send_queue": 0 if listens else one.sent,
            "receive_queue": one.received,
            "uid": one.uid,
            "inode": one.inode,
        }


@lru_cache(1024)
def _address(family: int, data: bytes) -> str:
    if family != socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET, data[:4])
    mapped = ipaddress.IPv6Address(data).ipv4_mapped
    return str(mapped or ipaddress.IPv6Address(data))
