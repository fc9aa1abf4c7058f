"""Reads and writes CRIU's image files: two magic numbers, then size-prefixed messages (criu.org/Images)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from pycriu.images import (
    core_pb2,
    fdinfo_pb2,
    fs_pb2,
    memfd_pb2,
    mm_pb2,
    pagemap_pb2,
    pstree_pb2,
    remap_file_path_pb2,
    seccomp_pb2,
    tty_pb2,
)

_MAGIC_BYTES = 8
_SIZE = struct.Struct("<I")
# The message each image consists of, by its name without the number. Images with other data between the
# messages are not for this module.
_MESSAGES: dict[str, Any] = {
    "core": core_pb2.core_entry,
    "fdinfo": fdinfo_pb2.fdinfo_entry,
    "files": fdinfo_pb2.file_entry,
    "fs": fs_pb2.fs_entry,
    "ids": core_pb2.task_kobj_ids_entry,
    "memfd": memfd_pb2.memfd_inode_entry,
    "mm": mm_pb2.mm_entry,
    "pagemap": pagemap_pb2.pagemap_entry,
    "pstree": pstree_pb2.pstree_entry,
    "remap-fpath": remap_file_path_pb2.remap_file_path_entry,
    "seccomp": seccomp_pb2.seccomp_entry,
    "tty-data": tty_pb2.tty_data_entry,
    "tty-info": tty_pb2.tty_info_entry,
}
_FIRST: dict[str, Any] = {"pagemap": pagemap_pb2.pagemap_head}
"""Where the first message is another."""


def read(path: Path) -> tuple[bytes, list[Any]]:
    """The magic bytes and the messages; no messages if there is no such image."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b"", []
    stem = path.stem.rstrip("0123456789").rstrip("-")
    entries: list[Any] = []
    position = _MAGIC_BYTES
    while position < len(data):
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        entry = (_MESSAGES if entries else _MESSAGES | _FIRST)[stem]()
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
