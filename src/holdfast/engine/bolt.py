"""A reader of bbolt databases, in which containerd keeps its records. Does not know containerd's schema.

A page that a transaction has in use is overwritten by the second one after it at the earliest: what was read
is of one instant if the database has moved on by less than that meanwhile, and is read again otherwise. No
lock is taken, so containerd never waits. Form: pages of a B+ tree, little-endian, see `page.go` and `db.go`
in go.etcd.io/bbolt.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

_MAGIC, _VERSION = 0xED0CDAED, 2
_PAGE = struct.Struct("<QHHI")  # id, flags, count, overflow
_META = struct.Struct("<IIIIQQQQQQ")  # magic, version, page size, …, root at 4, transaction at 8, checksum
_BRANCH_ITEM = struct.Struct("<IIQ")  # position, size of the key, page
_LEAF_ITEM = struct.Struct("<IIII")  # flags, position, sizes of key and value
_BUCKET = struct.Struct("<QQ")  # root page, sequence
_BRANCH, _LEAF = 1, 2
_IS_BUCKET = 1
_PAGE_SIZES = (4096, 16384, 65536)
_DEEPEST = 32
_LARGEST = 64 << 20
_TRIES = 5


class BoltUnreadable(Exception):
    """The file is not a database of this form, or changes too fast."""


def read(path: Path, *bucket: bytes) -> dict[bytes, dict[bytes, bytes]]:
    """Return the buckets in the bucket at this path of names: the values in each, by key.

    Raises:
        Unreadable: there is no such bucket, or the file has another form.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            try:
                before = _Database(descriptor)
                found = before.buckets(bucket)
            except (struct.error, RecursionError, BoltUnreadable):
                if _Database(descriptor).transaction > before.transaction:
                    continue
                raise
            if _Database(descriptor).transaction <= before.transaction + 1:
                return found
        raise BoltUnreadable("it changes all the time")
    except (struct.error, RecursionError) as error:
        raise BoltUnreadable(str(error)) from error
    finally:
        os.close(descriptor)


class _Database:
    """One transaction's view."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size, self._root, self.transaction = max(self._metas(), key=lambda meta: meta[2])

    def buckets(self, names: tuple[bytes, ...]) -> dict[bytes, dict[bytes, bytes]]:
        page = self._page(self._root)
        for name in names:
            page = next((below for key, below in self._inside(page) if key == name), b"")
            if not page:
                raise BoltUnreadable(f"it lacks the bucket {name.decode(errors='replace')}")
        return {key: dict(self._values(below)) for key, below in self._inside(page)}

    def _metas(self) -> Iterator[tuple[int, int, int]]:
        """Yield page size, root page and transaction of the first two pages, unless they are half written."""
        valid = False
        for place in (0, *_PAGE_SIZES):
            data = os.pread(self._descriptor, _META.size, place + _PAGE.size)
            if len(data) < _META.size:
                continue
            magic, version, size, _, root, _, _, _, transaction, checksum = _META.unpack(data)
            if (magic, version) == (_MAGIC, _VERSION) and checksum == _fnv(data[:-8]) and place in (0, size):
                valid = True
                yield size, root, transaction
        if not valid:
            raise BoltUnreadable("it is not a bbolt database")

    def _page(self, number: int) -> bytes:
        head = os.pread(self._descriptor, _PAGE.size, number * self._size)
        identity, _, _, overflow = _PAGE.unpack(head)
        length = (overflow + 1) * self._size
        if identity != number or length > _LARGEST:
            raise BoltUnreadable("a page is out of place")
        return os.pread(self._descriptor, length, number * self._size)

    def _items(self, page: bytes, depth: int = 0) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield flags, key and value of each item in the bucket that begins at this page."""
        _, flags, count, _ = _PAGE.unpack_from(page)
        if depth > _DEEPEST or not flags & (_BRANCH | _LEAF):
            raise BoltUnreadable("its pages are out of order")
        for number in range(count):
            if flags & _BRANCH:
                _, _, below = _BRANCH_ITEM.unpack_from(page, _PAGE.size + number * _BRANCH_ITEM.size)
                yield from self._items(self._page(below), depth + 1)
                continue
            place = _PAGE.size + number * _LEAF_ITEM.size
            kind, position, key, value = _LEAF_ITEM.unpack_from(page, place)
            begin, middle = place + position, place + position + key
            yield kind, page[begin:middle], page[middle : middle + value]

    def _inside(self, page: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the names of the buckets in a bucket, each with its first page."""
        for kind, key, value in self._items(page):
            if kind & _IS_BUCKET:
                root, _ = _BUCKET.unpack_from(value)
                # A small bucket has its only page behind its head.
                yield key, self._page(root) if root else value[_BUCKET.size :]

    def _values(self, page: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((key, value) for kind, key, value in self._items(page) if not kind & _IS_BUCKET)


def _fnv(data: bytes) -> int:
    """Return the FNV-1a hash, of 64 bits."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % (1 << 64)
    return found
