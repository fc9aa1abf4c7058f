"""Pages: the unit of deduplication, its digest, and the place where one is stored.

Pure. A page is the unit in which the kernel and CRIU count memory; a file's last one is padded with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blake3 import blake3

PAGE = 4096
ZEROS = bytes(PAGE)
GROUP = 16
"""Pages compared by one digest: unchanged data is then read at the speed of BLAKE3 itself."""
GROUP_BYTES = GROUP * PAGE
BLOCK = 64
"""Pages compressed together. Fewer compress worse; with more, more must be unpacked to read one."""
DIGEST = 16
"""Bytes of a page's digest: BLAKE3 truncated to 128 bits. Whole files are checked with the full digest."""
NOWHERE = ""
"""Stands in for a pack's name: pages of zeros, which are not stored."""


def digest(data: bytes | memoryview) -> bytes:
    """Return the name of a page or of a group of pages."""
    return blake3(data).digest(DIGEST)


@dataclass(frozen=True, slots=True)
class PageRun:
    """Pages of a file that also follow each other in one pack; or zeros, if the pack is `NOWHERE`."""

    pack: str
    first: int
    count: int


class Runs:
    """The places of a file's pages, collected in order."""

    def __init__(self) -> None:
        """Begin with no page."""
        self._found: list[PageRun] = []
        self._pack = NOWHERE
        self._first = 0
        self._count = 0

    def add(self, pack: str, first: int, count: int = 1) -> None:
        """Add `count` pages of `pack`, starting at number `first`, as the file's next pages."""
        if pack == self._pack and (pack == NOWHERE or first == self._first + self._count):
            self._count += count
            return
        self._end()
        self._pack, self._first, self._count = pack, 0 if pack == NOWHERE else first, count

    def __iter__(self) -> Iterator[PageRun]:
        self._end()
        return iter(self._found)

    def _end(self) -> None:
        if self._count:
            self._found.append(PageRun(self._pack, self._first, self._count))
        self._pack, self._first, self._count = NOWHERE, 0, 0
