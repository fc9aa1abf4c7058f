"""Searches the memory of a process as it is in images. Knows CRIU's map of pages, not its files."""

from __future__ import annotations

import mmap
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

PAGE = 4096
IN_PARENT = 1
PRESENT = 4
"""Flags of an entry (CRIU's pagemap.proto): its pages are in another snapshot; they are in this one."""
_MOST_HEADS = 128
"""Beginnings of what is searched; searching takes longer the more there are."""


class ImageMemory:
    """That of one process. `maps` are the entries of its pagemap, `pages` is the file they are about."""

    def __init__(self, maps: Sequence[Any], pages: Path) -> None:
        self._pages = pages
        self._parts: list[tuple[int, int, int]] = []  # position in the file, address, bytes
        position = 0
        for one in maps:
            if one.flags & PRESENT and not one.flags & IN_PARENT:
                size = (one.nr_pages or one.compat_nr_pages) * PAGE
                self._parts.append((position, one.vaddr, size))
                position += size
        self._begins = [part[0] for part in self._parts]
        self._by_address = sorted((part[1], part[1] + part[2]) for part in self._parts)

    def has(self, address: int) -> bool:
        """Check whether it contains an address."""
        part = bisect_right(self._by_address, (address, 1 << 64)) - 1
        return part >= 0 and address < self._by_address[part][1]

    def find(
        self, wanted: Collection[bytes], head: int, alignment: int, after: int, looks: Iterator[int]
    ) -> Iterator[tuple[int, bytes, bytes]]:
        """Find places of these patterns, all of the same length: the address, a multiple of `alignment`; the
        pattern; and `after` bytes that follow, 0 where there is nothing.

        They are searched by their first `head` bytes, which most have in common: in one pass, gigabytes a
        second. Each place that has these takes some microseconds, and a process may have them everywhere:
        each uses up one of `looks`, and the search ends when there are none left.
        """
        heads = sorted({one[:head] for one in wanted})[:_MOST_HEADS]
        if not heads:
            return
        size = len(next(iter(wanted)))
        pattern = re.compile(b"|".join(map(re.escape, heads)))
        for (at, found), _ in zip(self._in_file(pattern, size + after), looks, strict=False):
            if at % alignment or found[:size] not in wanted:
                continue
            part = bisect_right(self._begins, at) - 1
            begin, address, length = self._parts[part]
            # What comes after the end of a part is next to it only in the file.
            left = begin + length - at
            if part >= 0 and left >= size:
                yield address + at - begin, found[:size], found[size:left].ljust(after, b"\0")

    def _in_file(self, pattern: re.Pattern[bytes], size: int) -> Iterator[tuple[int, bytes]]:
        """Return the offset of a match, and a number of bytes from there on."""
        try:
            with (
                self._pages.open("rb") as file,
                mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages,
            ):
                for one in pattern.finditer(pages):
                    yield one.start(), pages[one.start() : one.start() + size]
        except (OSError, ValueError):  # an empty file cannot be mapped
            return
