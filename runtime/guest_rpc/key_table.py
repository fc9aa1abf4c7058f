"""A file of keys, of which each has one small record: found and replaced by reading a few pages.

Pages have a fixed number of slots. Level 0 is one page, level 1 two, level 2 four, and so on, one after the
other; a key's digest says which page of a level is its own. Its record is in the first of these pages that
had room: so a key is not in the file if it is not in those up to the first with a free slot. With n records
that are about log2(n / 32) pages of 4 KiB. Nothing ever moves: a process that dies while it writes leaves
every other record as it was, and a slot that is damaged is passed over.

It does not know what the records mean.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE, SLOT = 4096, 128
"""Bytes. A slot is within one sector, which disks write as a whole."""
_DIGEST = 32
ROOM = SLOT - _DIGEST - 6
"""Most bytes of a record."""
_SIZE, _CHECKSUM = struct.Struct("<H"), struct.Struct("<I")
"""At the end of a slot: the length of its record, and a checksum of all before it."""
_LEVELS = 40
_FREE = bytes(SLOT)


class KeyTable:
    """The records of one file, shared by any number of processes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, key: str) -> bytes | None:
        """Return the record of a key; None if there is none.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return self._place(file, _digest(key))[1]
        finally:
            os.close(file)

    def put(self, key: str, record: bytes) -> None:
        """Write the record of a key, in place of an earlier one. Durable on return.

        Raises:
            OSError: the file cannot be written.
        """
        assert len(record) <= ROOM
        digest = _digest(key)
        body = digest + record.ljust(ROOM, b"\0") + _SIZE.pack(len(record))
        slot = body + _CHECKSUM.pack(zlib.crc32(body))
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.pwrite(file, slot, self._place(file, digest)[0])
            os.fdatasync(file)
        finally:
            os.close(file)

    def _place(self, file: int, digest: bytes) -> tuple[int, bytes | None]:
        """Return the position of a key's record, existing or not, and the record."""
        for begin in _pages(digest):
            page = os.pread(file, PAGE, begin).ljust(PAGE, b"\0")
            for offset in range(0, PAGE, SLOT):
                slot = page[offset : offset + SLOT]
                if slot == _FREE:
                    return begin + offset, None
                body, checksum = slot[: -_CHECKSUM.size], slot[-_CHECKSUM.size :]
                if slot.startswith(digest) and _CHECKSUM.pack(zlib.crc32(body)) == checksum:
                    (size,) = _SIZE.unpack_from(body, _DIGEST + ROOM)
                    return begin + offset, body[_DIGEST : _DIGEST + size]
        raise OSError(0, "all pages of a key are full")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _pages(digest: bytes) -> Iterator[int]:
    """Yield where the pages of a key begin, level by level."""
    number = int.from_bytes(digest[:8], "big")
    for level in range(_LEVELS):
        yield ((1 << level) - 1 + number % (1 << level)) * PAGE
