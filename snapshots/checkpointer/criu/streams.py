"""Reads what images say of TCP connections: each has one message, followed by the bytes of its queues."""

from __future__ import annotations

import struct
from pathlib import Path

from pycriu.images import tcp_stream_pb2

from holdfast.snapshots.checkpointer.record import ImagesUnreadable

_MAGIC_BYTES = 8
_SIZE = struct.Struct("<I")
_MOST = 1 << 20
"""Bytes of a connection's description: some numbers. The contents of its queues come after that."""


def has_unacknowledged(images: Path) -> bool:
    """Check whether any of them has data to send: not sent yet, or not acknowledged.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    return any(_unacknowledged(path) for path in images.glob("tcp-stream-*.img"))


def _unacknowledged(path: Path) -> int:
    with path.open("rb") as kept:
        kept.read(_MAGIC_BYTES)
        (size,) = _SIZE.unpack(kept.read(_SIZE.size))
        if size > _MOST:
            raise ImagesUnreadable(f"{path.name} is not what CRIU writes")
        entry = tcp_stream_pb2.tcp_stream_entry()
        entry.ParseFromString(kept.read(size))
    return int(entry.outq_len)
