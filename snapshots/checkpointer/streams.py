"""Keeps connections of a copy silent until all of them are there.

CRIU sends for real what a program had written but the kernel had not sent when the session was captured. The
other end of the connection may not be restored at that moment; the answer to a packet for nobody is a reset.
If the bytes count as sent but not acknowledged, they are put into the queue without a packet, and the kernel
sends them again by itself when both ends are there.

Knows one kind of CRIU's images: one message about a TCP connection, followed by the bytes of its two queues.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from pycriu.images import tcp_stream_pb2

from holdfast.snapshots.checkpointer.record import Unreadable

_MAGIC_BYTES = 8
_SIZE = struct.Struct("<I")
_MOST = 1 << 20
"""Bytes of what is told of a connection: some numbers. What it has in its queues comes after that."""


def hold_back(images: Path) -> int:
    """Rewrite the connections in `images` that have unsent bytes; returns how many.

    The files may have other names, which keep their contents.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    changed = 0
    for path in images.glob("tcp-stream-*.img"):
        with path.open("rb") as kept:
            magic = kept.read(_MAGIC_BYTES)
            (size,) = _SIZE.unpack(kept.read(_SIZE.size))
            entry = tcp_stream_pb2.tcp_stream_entry()
            if size > _MOST:
                raise Unreadable(f"{path.name} is not what CRIU writes")
            entry.ParseFromString(kept.read(size))
            if not entry.unsq_len:
                continue
            entry.unsq_len = 0
            payload = entry.SerializeToString()
            fresh = path.with_suffix(".new")
            with fresh.open("wb") as changing:
                changing.write(magic + _SIZE.pack(len(payload)) + payload)
                shutil.copyfileobj(kept, changing)
        fresh.rename(path)
        changed += 1
    return changed
