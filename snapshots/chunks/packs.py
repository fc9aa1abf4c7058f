"""Packs: files of compressed pages, written once, replaced only by a pack of the same name with fewer pages.

    head         16 bytes
    blocks       up to 64 pages each, compressed, or plain if that saves nothing
    directory    where each block is; which pages are there; digests of pages and of groups of 16 pages
    foot         size of the directory and its BLAKE3 digest

A page is the unit of deduplication, as the kernel and CRIU count memory; a file's last one is padded with
zeros. It is identified by the pack's name and its number. Sweeping drops pages and leaves the numbers as
they are, so that recipes never change. A reader with a pack open can continue when that is replaced.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard
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
HEAD = b"holdfast pack 1\n"
FOOT = struct.Struct("<II Q 32s 16s")
PLACE = struct.Struct("<QII")
"""Entry of a block: its start, the bytes it takes, the bytes of the pages in it."""
PAGES = 65536
"""Most pages in one pack: 256 MiB."""
SUFFIX = ".pack"
MAX_DIRECTORY = 4 << 20


def digest(data: bytes | memoryview) -> bytes:
    """Return the name of a page or of a group of pages."""
    return blake3(data).digest(DIGEST)


@dataclass(frozen=True, slots=True)
class PageRun:
    """Consecutive pages of a file that are also consecutive in one pack; or zeros, if the pack is
    `NOWHERE`."""

    pack: str
    first: int
    count: int


class Runs:
    """The places of a file's pages, collected in order."""

    def __init__(self) -> None:
        """Begin without pages."""
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


class PackDamaged(Exception):
    """A pack is missing, or differs from its written form. The message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Directory:
    """The directory of a pack."""

    places: tuple[tuple[int, int, int], ...]
    present: bytes
    """One byte for each page: 1, or 0 if it was dropped."""
    digests: bytes
    groups: bytes

    @property
    def pages(self) -> int:
        """The number of pages that were ever in the pack."""
        return len(self.present)

    def encode(self) -> bytes:
        """Return the directory as it is written."""
        blocks = b"".join(PLACE.pack(*place) for place in self.places)
        return blocks + self.present + self.digests + self.groups


class Pack:
    """A pack to read from."""

    def __init__(self, path: Path) -> None:
        """Open a pack and check its directory.

        Raises:
            PackDamaged: it is missing, unreadable or damaged.
        """
        self.name = path.name.removesuffix(SUFFIX)
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise PackDamaged(f"pack {self.name} is missing") from error
        except OSError as error:
            raise PackDamaged(f"pack {self.name} cannot be read ({error.strerror})") from error
        try:
            self.bytes = os.fstat(self._file).st_size
            self.directory = _directory(self._file, self.bytes, self.name)
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def holds(self, first: int, count: int = 1) -> bool:
        """Return whether these pages are in it."""
        present = self.directory.present
        return first + count <= len(present) and present.find(0, first, first + count) < 0

    def digest(self, page: int) -> bytes:
        """Return the digest of a page."""
        return self.directory.digests[page * DIGEST : (page + 1) * DIGEST]

    def names(self, first: int, count: int) -> bytes:
        """Return the digests of pages that follow each other."""
        return self.directory.digests[first * DIGEST : (first + count) * DIGEST]

    def group(self, number: int) -> bytes:
        """Return the digest of a group of pages."""
        return self.directory.groups[number * DIGEST : (number + 1) * DIGEST]

    def block(self, number: int) -> bytes:
        """Return the present pages of a block, one after the other.

        Raises:
            PackDamaged: the block cannot be read or is damaged.
        """
        start, stored, raw = self.directory.places[number]
        try:
            data = os.pread(self._file, stored, start)
            if stored == raw:
                block = data
            else:
                block = zstandard.ZstdDecompressor().decompress(data, max_output_size=raw)
        except (OSError, zstandard.ZstdError) as error:
            raise PackDamaged(f"pack {self.name} cannot be read at {start} ({error})") from error
        if len(block) != raw:
            raise PackDamaged(f"pack {self.name} is damaged at {start}")
        return block

    def before(self, page: int) -> int:
        """Return the number of present pages before a page in its block."""
        return self.directory.present.count(1, page - page % BLOCK, page)


def _directory(file: int, size: int, name: str) -> Directory:
    damaged = PackDamaged(f"pack {name} is damaged or cut short")
    try:
        if size < len(HEAD) + FOOT.size or os.pread(file, len(HEAD), 0) != HEAD:
            raise damaged
        pages, blocks, length, checked, magic = FOOT.unpack(os.pread(file, FOOT.size, size - FOOT.size))
        if magic != HEAD or length > MAX_DIRECTORY or pages > PAGES or length > size:
            raise damaged
        data = os.pread(file, length, size - FOOT.size - length)
    except OSError as error:
        raise PackDamaged(f"pack {name} cannot be read ({error.strerror})") from error
    groups = -(-pages // GROUP)
    ends = [0, blocks * PLACE.size, pages, pages * DIGEST, groups * DIGEST]
    if sum(ends) != length or blake3(data).digest() != checked or blocks != -(-pages // BLOCK):
        raise damaged
    at = [sum(ends[: number + 1]) for number in range(len(ends))]
    places = tuple(PLACE.iter_unpack(data[at[0] : at[1]]))
    if any(raw > BLOCK * PAGE for _, _, raw in places):
        raise damaged
    return Directory(places, data[at[1] : at[2]], data[at[2] : at[3]], data[at[3] : at[4]])
