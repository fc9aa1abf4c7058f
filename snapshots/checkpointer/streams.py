"""Reads what images say of TCP connections: each has one message, followed by the bytes of its queues."""

from __future__ import annotations

import struct
from pathlib import Path

from pycriu.images import tcp_stream_pb2

_MAGIC_BYTES = 8
_SIZE = struct.Struct("<I")


def has_unsent(images: Path) -> bool:
    """Whether a program had written to any of them what the kernel had not sent."""
    return any(_unsent(path) for path in images.glob("tcp-stream-*.img"))


def _unsent(path: Path) -> int:
    with path.open("rb") as kept:
        kept.read(_MAGIC_BYTES)
        (size,) = _SIZE.unpack(kept.read(_SIZE.size))
        entry = tcp_stream_pb2.tcp_stream_entry()
        entry.ParseFromString(kept.read(size))
    return int(entry.unsq_len)
