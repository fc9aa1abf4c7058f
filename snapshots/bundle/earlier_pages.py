"""Finds the pages of a file that an earlier snapshot of the same session also has.

Memory is written without gaps, so one page more moves all that follow it in the file. A course is followed
as long as pages are equal; after that, samples of the earlier files say where it continues. Every page that
is called equal was compared byte for byte. Owns the earlier files, which stay readable after they have been
removed; does not know segments.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PAGE = 4096
WINDOW = 64 * PAGE
"""Bytes compared in one step: little enough to stay in a processor's cache."""
SAMPLED = 16
"""One page in this many is sampled, so a course is found again after at most this many pages."""
SHORTEST = 4 * PAGE
"""Equal bytes between changed ones that are worth a part of their own: sending them costs less."""
_ZEROS = bytes(PAGE)


@dataclass(frozen=True, slots=True)
class PageRange:
    """A range of a file, and the place of the same bytes in an earlier file; without `name` it is new."""

    size: int
    name: str | None = None
    offset: int = 0


class EarlierPages:
    """The files of an earlier snapshot, held open; a context manager."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        """Open and sample the files of these names below a folder.

        Raises:
            OSError: one cannot be read.
        """
        self._held = ExitStack()
        self._files: dict[str, int] = {}
        self._samples: dict[int, tuple[str, int]] = {}
        try:
            for name in names:
                descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                self._held.callback(os.close, descriptor)
                self._files[name] = descriptor
                self._sample(name)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ranges(self, path: Path, name: str) -> list[PageRange]:
        """Return a file in ranges, from its beginning to its end; `name` is its probable earlier name.

        Raises:
            OSError: a file cannot be read.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return _worthwhile(_Comparison(self, descriptor, name).ranges())
        finally:
            os.close(descriptor)

    def has(self, name: str) -> bool:
        """Return whether the file exists."""
        return name in self._files

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Return bytes of a file; fewer at its end, none before its beginning."""
        return os.pread(self._files[name], size, offset) if offset >= 0 else b""

    def find(self, page: bytes) -> tuple[str, int] | None:
        """Return the place of a page, if it was sampled."""
        found = self._samples.get(hash(page))
        return found if found is not None and self.read(*found, PAGE) == page else None

    def _sample(self, name: str) -> None:
        descriptor = self._files[name]
        for offset in range(0, os.fstat(descriptor).st_size, SAMPLED * PAGE):
            page = os.pread(descriptor, PAGE, offset)
            if page != _ZEROS:  # they are everywhere
                self._samples.setdefault(hash(page), (name, offset))


class _Comparison:
    """One file on its way through the earlier ones."""

    def __init__(self, earlier: EarlierPages, descriptor: int, name: str) -> None:
        self._earlier = earlier
        self._descriptor = descriptor
        self._name: str | None = name if earlier.has(name) else None
        self._shift = 0  # of the course: what an earlier offset is more than ours
        self._start, self._window = 0, b""  # of the earlier file
        self._found: list[PageRange] = []

    def ranges(self) -> list[PageRange]:
        at = 0
        while block := os.pread(self._descriptor, WINDOW, at):
            self._walk(at, block)
            at += len(block)
        return self._found

    def _walk(self, at: int, block: bytes) -> None:
        self._look(at, len(block))
        passed = 0
        while passed < len(block):
            same = self._same(at + passed, block, passed)
            if same:
                _append(self._found, PageRange(same, self._name, at + passed + self._shift))
                passed += same
                continue
            page = block[passed : passed + PAGE]
            place = self._earlier.find(page)
            if place is None:
                _append(self._found, PageRange(len(page)))
                passed += len(page)
                continue
            self._name, self._shift = place[0], place[1] - (at + passed)
            self._look(at + passed, len(block) - passed)
            self._take_back(at + passed)

    def _look(self, at: int, size: int) -> None:
        """Read the range that is expected to be equal."""
        self._start = at + self._shift
        self._window = self._earlier.read(self._name, self._start, size) if self._name is not None else b""

    def _same(self, at: int, block: bytes, passed: int) -> int:
        """Return how many bytes of the block are equal from `passed` on, in whole pages."""
        begin = at + self._shift - self._start
        if passed == begin == 0 and block == self._window:
            return len(block)
        end = passed
        while end < len(block):
            page = block[end : end + PAGE]
            if page != self._window[begin : begin + len(page)]:
                break
            end, begin = end + len(page), begin + len(page)
        return end - passed

    def _take_back(self, at: int) -> None:
        """Reclassify pages before `at` that were called new: only some earlier pages are sampled."""
        last = self._found[-1] if self._found else None
        if last is None or last.name is not None or self._name is None:
            return
        back = 0
        while back < last.size:
            place = at - back - PAGE
            ours = os.pread(self._descriptor, PAGE, place)
            if ours != self._earlier.read(self._name, place + self._shift, PAGE):
                break
            back += PAGE
        if back:
            self._found.pop()
            if back < last.size:
                self._found.append(PageRange(last.size - back))
            _append(self._found, PageRange(back, self._name, at - back + self._shift))


def _append(ranges: list[PageRange], found: PageRange) -> None:
    """Add a range, merging it with the last one if it continues that."""
    last = ranges[-1] if ranges else None
    if last is None or last.name != found.name or (last.name and last.offset + last.size != found.offset):
        ranges.append(found)
    else:
        ranges[-1] = PageRange(last.size + found.size, last.name, last.offset)


def _worthwhile(ranges: list[PageRange]) -> list[PageRange]:
    """Return the ranges with short equal ones counted as new."""
    found: list[PageRange] = []
    for one in ranges:
        _append(found, one if one.size >= SHORTEST else PageRange(one.size))
    return found
