"""The sockets of a network namespace, asked of the kernel by netlink, see sock_diag(7).

The tables in /proc/net do not tell which unix socket is connected to which. The requests and parsers are
pure, `listed` is the driver; what a kernel cannot tell is left out.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from functools import lru_cache

from holdfast.snapshots.checkpointer import namespaces
from holdfast.snapshots.checkpointer.proc import net
from holdfast.snapshots.checkpointer.survey.seen import Socket

MAX_SOCKETS = 50_000
PATIENCE = 1.0  # seconds
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20
_REQUEST_AND_DUMP = 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
# sdiag_family, sdiag_protocol, extensions, states; then the id of one socket, which is not asked for.
_INTERNET = struct.Struct("=BBBxI48x")
# family, state; ports, addresses; queues, user, inode (struct inet_diag_msg).
_INTERNET_TOLD = struct.Struct("=BBxx2s2s16s16s12xIIIII")
# family, protocol; states, inode, what to show, cookie (struct unix_diag_req).
_UNIX = struct.Struct("=BBxxIIIII")
_UNIX_TOLD = struct.Struct("=BBBxIII")
_SHOW = 0x1 | 0x4 | 0x8 | 0x10  # name, peer, connections not accepted, queues
_NAME, _PEER, _ICONS, _QUEUE, _SHUTDOWN = 0, 2, 3, 4, 6
_ALL = 0xFFFFFFFF
_TABLES = (
    ("tcp", socket.AF_INET, socket.IPPROTO_TCP),
    ("tcp6", socket.AF_INET6, socket.IPPROTO_TCP),
    ("udp", socket.AF_INET, socket.IPPROTO_UDP),
    ("udp6", socket.AF_INET6, socket.IPPROTO_UDP),
)


def listed(process: int) -> list[Socket]:
    """The sockets of the network namespace of a process: TCP, UDP and unix."""
    try:
        with _in_namespace(process) as link:
            return list(_all(link))
    except OSError:
        return []


def _in_namespace(process: int) -> socket.socket:
    """A socket that speaks with the kernel about another namespace. A socket stays where it was made."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    other = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        namespaces.enter(other, namespaces.NEWNET)
        try:
            link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
        finally:
            namespaces.enter(own, namespaces.NEWNET)
    finally:
        os.close(own)
        os.close(other)
    link.settimeout(PATIENCE)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return link


def _all(link: socket.socket) -> Iterator[Socket]:
    for protocol, family, number in _TABLES:
        for body in _answers(link, _INTERNET.pack(family, number, 0, _ALL)):
            found = internet(body, protocol)
            if found is not None:
                yield found
    for body in _answers(link, _UNIX.pack(socket.AF_UNIX, 0, _ALL, 0, _SHOW, _ALL, _ALL)):
        one = unix(body)
        if one is not None:
            yield one


def _answers(link: socket.socket, body: bytes) -> Iterator[bytes]:
    header = _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST_AND_DUMP, 1, 0)
    link.send(header + body)
    seen = 0
    while True:
        for kind, answer in messages(link.recv(1 << 18)):
            if kind in (_DONE, _ERROR):
                return
            seen += 1
            if seen <= MAX_SOCKETS:
                yield answer


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and body of each message of a datagram."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def internet(body: bytes, protocol: str) -> Socket | None:
    """The TCP or UDP socket a message tells of. Addresses are `host:port`; empty where there is no port."""
    if len(body) < _INTERNET_TOLD.size:
        return None
    family, state, sport, dport, source, target, _, received, sent, _, inode = _INTERNET_TOLD.unpack_from(
        body
    )
    return Socket(
        protocol,
        net.state(protocol, state),
        _address(family, source, sport),
        _address(family, target, dport),
        inode,
        received=received,
        sent=sent,
    )


def unix(body: bytes) -> Socket | None:
    """The unix socket a message tells of; an abstract name begins with @."""
    if len(body) < _UNIX_TOLD.size:
        return None
    _, kind, state, inode, _, _ = _UNIX_TOLD.unpack_from(body)
    attributes = dict(_attributes(body[_UNIX_TOLD.size :]))
    name = attributes.get(_NAME, b"")
    text = name.rstrip(b"\0").decode("utf-8", "replace") if name[:1] != b"\0" else _abstract(name)
    icons = attributes.get(_ICONS, b"")
    queues = attributes.get(_QUEUE, b"\0" * 8)
    received, sent = struct.unpack_from("=II", queues) if len(queues) >= 8 else (0, 0)
    peer = attributes.get(_PEER, b"")
    return Socket(
        f"unix {net.UNIX_TYPES.get(kind, 'other')}",
        net.TCP_STATES[state] if state < len(net.TCP_STATES) else net.TCP_STATES[0],
        text,
        inode=inode,
        peer=struct.unpack("=I", peer)[0] if len(peer) == 4 else 0,
        received=received,
        sent=sent,
        waiting=struct.unpack(f"={len(icons) // 4}I", icons[: len(icons) // 4 * 4]),
        closed=attributes.get(_SHUTDOWN, b"") == b"\3",
    )


def _abstract(name: bytes) -> str:
    return "@" + name[1:].replace(b"\0", b"@").decode("utf-8", "replace")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


@lru_cache(4096)
def _address(family: int, data: bytes, port: bytes) -> str:
    number = int.from_bytes(port)
    if not number:
        return ""
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, data[:4])}:{number}"
    text = socket.inet_ntop(socket.AF_INET6, data)
    # IPv4 seen through an IPv6 socket: the same connection as its other end, which may be an IPv4 socket.
    return f"{text.removeprefix('::ffff:')}:{number}" if text.startswith("::ffff:") else f"[{text}]:{number}"
