"""The index of stored pages: a table of digests in a file, mapped into memory by the process that packs.

It only suggests: every answer is compared with the pack it points to. A wrong or lost index costs space,
never a page, so it is not synced, and it is rebuilt from the packs whenever anything about it looks wrong.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from holdfast.base import private_files
from holdfast.snapshots.chunks.packs import DIGEST

MAGIC = b"holdfast index 1"
HEADER = struct.Struct("<16s QQQ")
"""Magic, slots, slots in use, a flag for an orderly close."""
START = 64
"""Where slots begin, of 16 bytes each: the first 8 bytes of a digest, then the name of the pack and the
number of the page in it. Numbers are in the machine's byte order: little-endian, wherever Holdfast runs."""
FEWEST = 1 << 14
FULL = 0.6
REACH = 256
"""Most slots examined for one page; an undamaged table needs far fewer."""
NUMBER_BITS = 24

Listing = Callable[[], Iterable[tuple[str, bytes, bytes]]]
"""Name, digests and present pages of every pack."""


class PackIndex:
    """One table, open for lookups and additions. Its user holds the lock of the packs."""

    def __init__(self, path: Path, listing: Listing) -> None:
        """Open the table of a file; rebuild it from the packs if it cannot be used.

        Raises:
            OSError: it cannot be opened or written.
        """
        self._path = path
        self._listing = listing
        if not self._open():
            self._renew()

    def find(self, name: bytes) -> Iterator[tuple[str, int]]:
        """Return the possible places of pages with this digest."""
        (key,) = _keys(name)
        mask, words = self._mask, self._words
        at = key & mask
        for _ in range(REACH):
            place = words[2 * at + 1]
            if not place:
                return
            if words[2 * at] == key:
                yield f"{place >> NUMBER_BITS:010x}", place & ((1 << NUMBER_BITS) - 1)
            at = (at + 1) & mask

    def lacks(self, names: bytes) -> bool:
        """Return whether all of these pages are unknown and different from each other."""
        keys = _keys(names)
        mask, words = self._mask, self._words
        for key in keys:
            at = key & mask
            if words[2 * at + 1]:
                for _ in range(REACH):
                    if words[2 * at] == key:
                        return False
                    at = (at + 1) & mask
                    if not words[2 * at + 1]:
                        break
        return len(keys) == 1 or len(set(keys)) == len(keys)

    def add_all(self, names: bytes, pack: str, page: int) -> None:
        """Remember the places of pages that are consecutive in a pack."""
        keys = _keys(names)
        if self._used + len(keys) > self._slots * FULL:
            self._grow()
        self._put(zip(keys, count(int(pack, 16) << NUMBER_BITS | page)))

    def close(self) -> None:
        """Mark the table as closed properly; repeated calls change nothing."""
        if self._table.closed:
            return
        HEADER.pack_into(self._table, 0, MAGIC, self._slots, self._used, 1)
        self._words.release()
        self._table.close()

    @staticmethod
    def usable(path: Path) -> bool:
        """Return whether a file is a table that was closed properly."""
        with suppress(OSError), path.open("rb") as file:
            return _described(file.read(HEADER.size), os.fstat(file.fileno()).st_size) is not None
        return False

    def _put(self, entries: Iterable[tuple[int, int]]) -> None:
        mask, words = self._mask, self._words
        for key, place in entries:
            at = key & mask
            for _ in range(REACH):
                if not words[2 * at + 1]:
                    words[2 * at], words[2 * at + 1] = key, place
                    self._used += 1
                    break
                at = (at + 1) & mask

    def _open(self) -> bool:
        try:
            with self._path.open("r+b") as file:
                found = _described(file.read(HEADER.size), os.fstat(file.fileno()).st_size)
                if found is None:
                    return False
                self._map(file.fileno(), *found)
        except OSError:
            return False
        return True

    def _map(self, file: int, slots: int, used: int) -> None:
        # On a full disk this fails; a write into a hole of the mapped file would kill the process (SIGBUS).
        os.posix_fallocate(file, 0, START + slots * 16)
        self._table = mmap.mmap(file, START + slots * 16)
        self._words = memoryview(self._table)[START:].cast("Q")
        self._slots, self._mask, self._used = slots, slots - 1, used
        # If this mark is still there later, this process did not end in order.
        HEADER.pack_into(self._table, 0, MAGIC, slots, used, 0)

    def _empty(self, entries: int) -> None:
        slots = FEWEST
        while entries > slots * FULL / 2:
            slots *= 2
        self._path.unlink(missing_ok=True)
        with private_files.create(self._path, new=True) as file:
            self._map(file.fileno(), slots, 0)

    def _renew(self) -> None:
        entries = sum(len(present) for _, _, present in self._listing())
        self._empty(entries)
        for name, digests, present in self._listing():
            for page, there in enumerate(present):
                if there:
                    self.add_all(digests[page * DIGEST : (page + 1) * DIGEST], name, page)

    def _grow(self) -> None:
        table, words = self._table, self._words
        self._empty(self._used * 2)
        self._put((key, place) for key, place in zip(words[::2], words[1::2], strict=True) if place)
        words.release()
        table.close()


def _keys(names: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{'Q8x' * (len(names) // DIGEST)}", names)


def _described(head: bytes, size: int) -> tuple[int, int] | None:
    """Return the number of slots and of used ones, if a file with this head was closed properly."""
    if len(head) < HEADER.size:
        return None
    magic, slots, used, closed = HEADER.unpack(head)
    usable = magic == MAGIC and closed == 1 and slots >= FEWEST and not slots & (slots - 1)
    return (slots, used) if usable and size == START + slots * 16 and used < slots else None
