"""Two bundles of one session to one receiver: what the second need not read, search or send again.

The first is of a snapshot taken while the session runs. Its memory stays open, so the second can be compared
with what was sent, whatever becomes of that snapshot meanwhile. The receiver compares the whole files of the
second with their digests, so data that differs from what was sent is refused there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.runtime.transfer.inspection import SearchedFiles
from holdfast.snapshots.bundle.earlier_pages import EarlierPages, PageRange
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.form import FilePart, InParts, LayerSegment

if TYPE_CHECKING:
    from holdfast.snapshots.manifest import Manifest

SMALL = 1 << 20
"""Files smaller than this share segments."""
MOST_FILES = 256
"""The largest files, which are kept open: a process may have 1024 open by default."""
MOST_RANGES = 50_000
"""A file in more ranges is sent whole: they are listed in the bundle's config, at some 60 bytes each."""


@dataclass(frozen=True, slots=True)
class SentBundle:
    """A bundle that was sent: its large files, their parts, its segments, and how it was searched."""

    pages: EarlierPages
    files: Mapping[str, InParts]
    segments: Sequence[LayerSegment]
    blobs: Sequence[BlobDescriptor]
    searched: SearchedFiles
    _ends: dict[str, list[int]] = field(default_factory=dict, init=False)

    def parts(self, one: PageRange) -> Iterator[FilePart]:
        """Yield the parts that a range of it consists of."""
        name = one.name or ""
        parts = self.files[name].parts
        # A file may be asked for in tens of thousands of ranges.
        if name not in self._ends:
            self._ends[name] = list(accumulate(part.bytes for part in parts))
        ends = self._ends[name]
        at, end = one.offset, one.offset + one.size
        for number in range(bisect_right(ends, at), len(parts)):
            if at >= end:
                return
            part = parts[number]
            begin = at - (ends[number] - part.bytes)
            size = min(end, ends[number]) - at
            at += size
            offset = 0 if part.segment is None else part.offset + begin
            yield FilePart(segment=part.segment, offset=offset, bytes=size)


@dataclass(slots=True)
class BundleSeries:
    """What is known of the bundles before the next one; a context manager.

    Attributes:
        packed: segments that were packed before, by their content.
        earlier: the first bundle, if the receiver keeps what it was made into.
    """

    packed: dict[str, BlobDescriptor] = field(default_factory=dict)
    earlier: SentBundle | None = None

    def changes(self, folder: Path, kept: Manifest) -> dict[str, list[PageRange]]:
        """Return the ranges of those large files of a snapshot that can be compared with what was sent."""
        found: dict[str, list[PageRange]] = {}
        if self.earlier is not None:
            for entry in kept.files:
                with suppress(OSError):
                    if entry.bytes >= SMALL:
                        ranges = self.earlier.pages.ranges(folder / entry.name, entry.name)
                        if len(ranges) <= MOST_RANGES:
                            found[entry.name] = ranges
        return found

    def sent(
        self,
        folder: Path,
        files: Sequence[InParts],
        segments: Sequence[LayerSegment],
        blobs: Sequence[BlobDescriptor],
        searched: SearchedFiles,
    ) -> None:
        """Keep what was sent of large files, for the next bundle.

        If they cannot be kept open, that one is sent like any other.
        """
        sizes = {file.name: sum(part.bytes for part in file.parts) for file in files}
        by_size = sorted(files, key=lambda file: sizes[file.name], reverse=True)
        by_name = {file.name: file for file in by_size[:MOST_FILES]}
        with suppress(OSError):
            pages = EarlierPages(folder, by_name)
            self.earlier = SentBundle(pages, by_name, segments, blobs, searched)

    def close(self) -> None:
        """Forget the earlier bundle."""
        if self.earlier is not None:
            self.earlier.pages.close()
            self.earlier = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
