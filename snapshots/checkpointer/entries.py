"""Reads and writes CRIU's image files: two magic numbers, then size-prefixed messages (criu.org/Images)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from pycriu.images import fdinfo_pb2, pstree_pb2, tty_pb2

_MAGIC_BYTES = 8
_SIZE = struct.Struct("<I")
# The message each image consists of; images with other data between the messages are not for this module.
_MESSAGES: dict[str, Any] = {
    "files.img": fdinfo_pb2.file_entry,
    "pstree.img": pstree_pb2.pstree_entry,
    "tty-info.img": tty_pb2.tty_info_entry,
}


def read(path: Path) -> tuple[bytes, list[Any]]:
    """The magic bytes and the messages; no messages if there is no such image."""
    if not path.exists():
        return b"", []
    data = path.read_bytes()
    entries: list[Any] = []
    position = _MAGIC_BYTES
    while position < len(data):
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        entry = _MESSAGES[path.name]()
        entry.ParseFromString(data[position : position + size])
        entries.append(entry)
        position += size
    return data[:_MAGIC_BYTES], entries


def write(path: Path, magic: bytes, entries: list[Any]) -> None:
    """The inverse of `read`."""
    with path.open("wb") as stream:
        stream.write(magic)
        for entry in entries:
            payload = entry.SerializeToString()
            stream.write(_SIZE.pack(len(payload)) + payload)
