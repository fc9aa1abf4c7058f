"""Searches the memory of a process as it is in images. Knows CRIU's map of pages, not its files."""

from __future__ import annotations

import mmap
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

PAGE = 4096
IN_PARENT = 1
PRESENT = 4
"""Flags of an entry (CRIU's pagemap.proto): its pages are in another snapshot; they are in this one."""
_MOST = 100_000
"""Of what is searched in one process; it may have it as often as it likes."""


class Memory:
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
        """Whether an address is in it."""
        part = bisect_right(self._by_address, (address, 1 << 64)) - 1
        return part >= 0 and address < self._by_address[part][1]

    def find(
        self, wanted: Collection[bytes], alignment: int, after: int
    ) -> Iterator[tuple[int, bytes, bytes]]:
        """The addresses, of this alignment, at which there is one of these; which one; and so many bytes
        after it, which are 0 where there is nothing.
        """
        if not wanted:
            return
        # One pass, however many there are: more than a gigabyte a second.
        any_of_them = re.compile(b"|".join(map(re.escape, wanted)))
        for at, found, following in islice(self._in_file(any_of_them, after), _MOST):
            part = bisect_right(self._begins, at) - 1
            if at % alignment or part < 0:
                continue
            begin, address, size = self._parts[part]
            # What comes after the end of a part is next to it only in the file.
            left = begin + size - at - len(found)
            if left >= 0:
                yield address + at - begin, found, following[:left].ljust(after, b"\0")

    def _in_file(self, pattern: re.Pattern[bytes], after: int) -> Iterator[tuple[int, bytes, bytes]]:
        try:
            with (
                self._pages.open("rb") as file,
                mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages,
            ):
                for one in pattern.finditer(pages):
                    yield one.start(), one[0], pages[one.end() : one.end() + after]
        except (OSError, ValueError):  # an empty file cannot be mapped
            return
