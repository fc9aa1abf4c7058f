"""Cutting of files into segments, so that equal parts of different snapshots become equal segments. Pure.

A cut in memory depends only on the pages at that place: a page whose checksum ends in zeros is the last
of its segment, so an insertion moves cuts with it. Long runs of zeros belong to no segment.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.snapshots.bundle.segment_packing import ReadableStream

PAGE = 4096
LEAST = 4 << 20
MOST = 32 << 20
_MASK = (16 << 20) // PAGE - 1
"""One page in this many ends a segment: 16 MiB on average, beyond the minimum."""
_ZEROS = bytes(PAGE)
ZERO_RUN = 64
"""Least pages of zeros that are left out; fewer cost less inside a segment than a second segment."""
_READ = 256


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Some bytes of a file that belong together; without data they are zeros."""

    size: int
    data: bytes | None = None


def pieces(file: ReadableStream) -> Iterator[FilePiece]:
    """Yield a file in pieces, from its beginning to its end."""
    held = bytearray()
    zeros = 0
    for page in _pages(file):
        if page == _ZEROS:
            zeros += 1
            continue
        if zeros >= ZERO_RUN:
            if held:
                yield FilePiece(len(held), bytes(held))
                held = bytearray()
            yield FilePiece(zeros * PAGE)
        else:
            held += bytes(zeros * PAGE)
        zeros = 0
        held += page
        if len(held) >= MOST or (len(held) >= LEAST and zlib.crc32(page) & _MASK == 0):
            yield FilePiece(len(held), bytes(held))
            held = bytearray()
    if zeros < ZERO_RUN:
        held += bytes(zeros * PAGE)
    if held:
        yield FilePiece(len(held), bytes(held))
    if zeros >= ZERO_RUN:
        yield FilePiece(zeros * PAGE)


def _pages(file: ReadableStream) -> Iterator[bytes]:
    while block := file.read(_READ * PAGE):
        for start in range(0, len(block), PAGE):
            yield block[start : start + PAGE]


def together(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[bytes, list[tuple[str, int, int]]]]:
    """Combine small files into few segments: the segment, and for each file its name, offset and size."""
    held, places = bytearray(), list[tuple[str, int, int]]()
    for name, data in files:
        places.append((name, len(held), len(data)))
        held += data
        if len(held) >= LEAST:
            yield bytes(held), places
            held, places = bytearray(), []
    if places:
        yield bytes(held), places
