"""Bundles of one session to one receiver, and the data that does not have to be read, searched, sent or
written again.

At the sender that is an earlier bundle's content; at the receiver, the files of an earlier import, of which
the next one's are mostly made.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from holdfast.errors import SnapshotDamaged
from holdfast.runtime.transfer.inspection import SearchedFiles
from holdfast.snapshots import raw_cache
from holdfast.snapshots.bundle.earlier_pages import EarlierPages, PageRange
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.form import BundleConfig, FileInParts, FilePart, LayerSegment

if TYPE_CHECKING:
    from holdfast.snapshots.manifest import Manifest


SMALL = 1 << 20
"""Files smaller than this share segments."""
MOST_FILES = 256
"""The largest files, which are kept open: a process can have 1024 open by default."""
MOST_RANGES = 50_000
"""A file in more ranges is sent whole: they are listed in the bundle's config, at some 60 bytes each."""
_AT_ONCE = 64 << 20
_Identity = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class SentBundle:
    """A bundle that was sent: its large files, their parts, its segments, and how it was searched."""

    pages: EarlierPages
    files: Mapping[str, FileInParts]
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
    """The knowledge about earlier bundles for the next one; a context manager.

    Attributes:
        packed: segments that were packed before, by their content.
        earlier: the first bundle, if the receiver keeps what it was made into.
        layers: the layers of its image as they are here, if the receiver keeps apart what is on top of them.
    """

    packed: dict[str, BlobDescriptor] = field(default_factory=dict)
    earlier: SentBundle | None = None
    layers: tuple[str, ...] = ()

    def changes(self, folder: Path, manifest: Manifest) -> dict[str, list[PageRange]]:
        """Return the large files' ranges in a snapshot that can be compared with sent ones."""
        found: dict[str, list[PageRange]] = {}
        if self.earlier is not None:
            for entry in manifest.files:
                with suppress(OSError):
                    if entry.bytes >= SMALL:
                        ranges = self.earlier.pages.ranges(folder / entry.name, entry.name)
                        if len(ranges) <= MOST_RANGES:
                            found[entry.name] = ranges
        return found

    def sent(
        self,
        folder: Path,
        files: Sequence[FileInParts],
        segments: Sequence[LayerSegment],
        blobs: Sequence[BlobDescriptor],
        searched: SearchedFiles,
    ) -> None:
        """Record the sent ranges of large files, for the next bundle.

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
        self.layers = ()
        if self.earlier is not None:
            self.earlier.pages.close()
            self.earlier = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _SegmentPlace:
    """The place of a part of a segment in a file."""

    path: Path
    at: int
    part: FilePart


class EarlierImport:
    """The files of one import; close it in the end."""

    def __init__(self, folder: Path, config: BundleConfig, blobs: Sequence[BlobDescriptor]) -> None:
        """Keep the files below a snapshot's folder from being evicted.

        Raises:
            SnapshotDamaged: the folder is missing.
        """
        self._held = ExitStack()
        self._places: dict[_Identity, _SegmentPlace] = {}
        self._open: tuple[Path, int] | None = None
        self._held.enter_context(raw_cache.held(folder))
        self._held.callback(self._leave)
        for file in config.files:
            at = 0
            for part in file.parts:
                if part.segment is not None:
                    identity = _identity(config.segments[part.segment], blobs[part.segment])
                    known = self._places.get(identity)
                    if known is None or known.part.bytes < part.bytes:
                        self._places[identity] = _SegmentPlace(folder / file.name, at, part)
                at += part.bytes

    def close(self) -> None:
        """Let the files be evicted."""
        self._held.close()

    def has(self, segment: LayerSegment, blob: BlobDescriptor) -> bool:
        """Return whether a file has all of a segment."""
        place = self._places.get(_identity(segment, blob))
        return place is not None and place.part.bytes == segment.bytes

    def copy(self, segment: LayerSegment, blob: BlobDescriptor, part: FilePart, out: BinaryIO) -> bool:
        """Copy a part of a segment to the position of `out`, and return True; False if no file has it.

        Raises:
            OSError: it cannot be written.
        """
        place = self._places.get(_identity(segment, blob))
        if place is None or not (
            place.part.offset <= part.offset
            and part.offset + part.bytes <= place.part.offset + place.part.bytes
        ):
            return False
        start = out.tell()
        source = self._opened(place.path)
        if source is None:
            return False
        out.flush()
        os.lseek(out.fileno(), start, os.SEEK_SET)
        offset, left = place.at + part.offset - place.part.offset, part.bytes
        while left:
            done = os.sendfile(out.fileno(), source, offset, min(left, _AT_ONCE))
            if not done:  # it is shorter than it was
                out.seek(start)
                return False
            offset, left = offset + done, left - done
        out.seek(start + part.bytes)
        return True

    def _opened(self, path: Path) -> int | None:
        if self._open is None or self._open[0] != path:
            self._leave()
            with suppress(OSError):
                self._open = (path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        return self._open[1] if self._open is not None else None

    def _leave(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None


class ImportSeries:
    """The imports from one source: the first is kept for those after it. Close it in the end.

    Attributes:
        earlier: the first import.
        image: the name of its image, which has most layers of the later ones; empty without one.
    """

    def __init__(self) -> None:
        self.earlier: EarlierImport | None = None
        self.image = ""

    def imported(
        self, folder: Path, config: BundleConfig, blobs: Sequence[BlobDescriptor], image: str
    ) -> None:
        """Keep an import, if it is the first and still exists."""
        self.image = self.image or image
        if self.earlier is None:
            with suppress(SnapshotDamaged):
                self.earlier = EarlierImport(folder, config, blobs)

    def close(self) -> None:
        """Stop keeping imports."""
        if self.earlier is not None:
            self.earlier.close()
            self.earlier = None


def _identity(segment: LayerSegment, blob: BlobDescriptor) -> _Identity:
    return blob.digest, segment.blake3, segment.bytes
