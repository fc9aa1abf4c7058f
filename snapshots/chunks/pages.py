"""Pages: the unit of what is kept once, its digest, and where one is kept.

Pure. A page is what the kernel and CRIU count memory in; a file's last one is filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from blake3 import blake3

PAGE = 4096
ZEROS = bytes(PAGE)
GROUP = 16
"""Pages that are compared by one digest: what did not change is then read at the speed of BLAKE3 itself."""
GROUP_BYTES = GROUP * PAGE
BLOCK = 64
"""Pages compressed together. Fewer compress worse, more must be unpacked for the sake of one."""
DIGEST = 16
"""Bytes of a page's digest: BLAKE3 cut to 128 bits. Whole files are checked with all of it."""
NOWHERE = ""
"""Instead of a pack's name: pages of zeros, which are kept nowhere."""


def digest(data: bytes | memoryview) -> bytes:
    """The name of a page or of a group of pages."""
    return blake3(data).digest(DIGEST)


@dataclass(frozen=True, slots=True)
class Run:
    """Pages of a file that follow each other in one pack, too; or zeros, if the pack is `NOWHERE`."""

    pack: str
    first: int
    count: int


@dataclass(slots=True)
class Runs:
    """Collects where the pages of a file are, in order."""

    found: list[Run] = field(default_factory=list)

    def add(self, pack: str, first: int, count: int = 1) -> None:
        """The next `count` pages of the file are those of `pack` from number `first` on."""
        if self.found:
            last = self.found[-1]
            if last.pack == pack and (pack == NOWHERE or last.first + last.count == first):
                self.found[-1] = Run(pack, last.first, last.count + count)
                return
        self.found.append(Run(pack, 0 if pack == NOWHERE else first, count))

    def __iter__(self) -> Iterator[Run]:
        return iter(self.found)
