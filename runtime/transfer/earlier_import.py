"""The files of an earlier import, of which those of the next one are mostly made.

They were compared with their digests when they were imported. Only what the earlier bundle said under the
same digests is found in them, so a source learns nothing from it that it did not send; what is made of them
is compared as a whole. Knows no snapshots but by their folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import SnapshotDamaged
from holdfast.snapshots import raw_cache
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.form import Config, FilePart, LayerSegment

_AT_ONCE = 64 << 20
_Identity = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class _SegmentPlace:
    """Where a file has a part of a segment."""

    path: Path
    at: int
    part: FilePart


class EarlierImport:
    """The files of one import; close it in the end."""

    def __init__(self, folder: Path, config: Config, blobs: Sequence[BlobDescriptor]) -> None:
        """Keep the files below a snapshot's folder from being evicted.

        Raises:
            SnapshotDamaged: the folder is gone.
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
        """Copy a part of a segment to where `out` is, and return True; False if no file has it.

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
    """The imports from one source: the first is kept for those after it. Close it in the end."""

    def __init__(self) -> None:
        self.earlier: EarlierImport | None = None

    def imported(self, folder: Path, config: Config, blobs: Sequence[BlobDescriptor]) -> None:
        """Keep an import, if it is the first and still there."""
        if self.earlier is None:
            with suppress(SnapshotDamaged):
                self.earlier = EarlierImport(folder, config, blobs)

    def close(self) -> None:
        """Keep none any more."""
        if self.earlier is not None:
            self.earlier.close()
            self.earlier = None


def _identity(segment: LayerSegment, blob: BlobDescriptor) -> _Identity:
    return blob.digest, segment.blake3, segment.bytes
