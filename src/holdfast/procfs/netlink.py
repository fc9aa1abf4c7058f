"""Messages of netlink(7) and their attributes, and dumps over a socket. Knows no family's payload."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

HEADER = struct.Struct("=IHHII")
_REQUEST_AND_DUMP = 0x301
_ERROR, _DONE = 2, 3
_LARGEST = 1 << 18
"""Bytes of a datagram."""


class KernelRefused(OSError):
    """The kernel answered a request with an error."""


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message of a datagram."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, *_ = HEADER.unpack_from(data, at)
        if length < HEADER.size:
            return
        yield kind, data[at + HEADER.size : at + length]
        at += (length + 3) & ~3


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of each attribute in a body."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


def dump(link: socket.socket, kind: int, body: bytes) -> Iterator[bytes]:
    """Send a request for a dump, and yield the body of each answer.

    Raises:
        Refused: the kernel answered with an error.
        OSError: there is no answer.
    """
    link.send(HEADER.pack(HEADER.size + len(body), kind, _REQUEST_AND_DUMP, 1, 0) + body)
    while True:
        for answer, content in messages(link.recv(_LARGEST)):
            if answer == _DONE:
                return
            if answer == _ERROR:
                raise KernelRefused("the kernel refused a request over netlink")
            yield content
