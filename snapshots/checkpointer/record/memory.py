"""Searches the memory of a process as it is in images. Knows CRIU's map of pages, not its files."""

from __future__ import annotations

import mmap
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.snapshots.checkpointer.record.page_chain import PlacedPart

_MOST_HEADS = 128
"""Beginnings of the searched texts; searching takes longer the more there are."""


class ImageMemory:
    """The memory of one process, by the parts of each file that count (`page_chain.follow`)."""

    def __init__(self, files: Iterable[tuple[Path, Sequence[PlacedPart]]]) -> None:
        self._files = [
            _PagesFile(path, [(position, address, size) for position, address, size, _ in parts])
            for path, parts in files
        ]
        self._by_address = sorted(
            (address, address + size) for file in self._files for _, address, size in file.parts
        )

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
        second. Each place with these patterns takes some microseconds, and a process can have them
        everywhere: each uses up one of `looks`, and the search ends after the last.
        """
        heads = sorted({one[:head] for one in wanted})[:_MOST_HEADS]
        if not heads:
            return
        size = len(next(iter(wanted)))
        pattern = re.compile(b"|".join(map(re.escape, heads)))
        for file in self._files:
            for (at, found), _ in zip(file.matches(pattern, size + after), looks, strict=False):
                if at % alignment or found[:size] not in wanted:
                    continue
                part = bisect_right(file.begins, at) - 1
                begin, address, length = file.parts[part]
                # What comes after the end of a part is next to it only in the file.
                left = begin + length - at
                if part >= 0 and left >= size:
                    yield address + at - begin, found[:size], found[size:left].ljust(after, b"\0")


class _PagesFile:
    """A file of pages, of which these parts count: position in the file, address, bytes."""

    def __init__(self, path: Path, parts: list[tuple[int, int, int]]) -> None:
        self._path = path
        self.parts = parts
        self.begins = [part[0] for part in parts]

    def matches(self, pattern: re.Pattern[bytes], size: int) -> Iterator[tuple[int, bytes]]:
        """Yield the offset of a match, and a number of bytes from there on."""
        if not self.parts:
            return
        try:
            with (
                self._path.open("rb") as file,
                mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages,
            ):
                for one in pattern.finditer(pages):
                    yield one.start(), pages[one.start() : one.start() + size]
        except (OSError, ValueError):  # an empty file cannot be mapped
            return
