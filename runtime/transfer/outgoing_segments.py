"""The segments of one outgoing bundle: files are cut into them, and what was sent before is named again.

Knows no destination but by two functions, and no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from blake3 import blake3

from holdfast.runtime.transfer.bundle_series import BundleSeries, SentBundle
from holdfast.snapshots.bundle import bundle_segments, media
from holdfast.snapshots.bundle.form import FilePart, InParts, LayerSegment

if TYPE_CHECKING:
    from holdfast.snapshots.bundle.bundle_segments import FilePiece
    from holdfast.snapshots.bundle.earlier_pages import PageRange
    from holdfast.snapshots.bundle.endpoints import BlobDescriptor


class OutgoingSegments:
    """The segments so far, in the order in which the bundle lists them.

    Args:
        put: sends a part of a media type, unless it is there.
        has: returns whether a part is there.
        report: called with the uncompressed bytes that are done.
        series: the bundles before this one.
    """

    def __init__(
        self,
        put: Callable[[str, bytes], BlobDescriptor],
        has: Callable[[BlobDescriptor], bool],
        report: Callable[[int], None],
        series: BundleSeries,
    ) -> None:
        self._put = put
        self._has = has
        self._report = report
        self._series = series
        self._numbers: dict[str, int] = {}
        self.segments: list[LayerSegment] = []
        self.blobs: list[BlobDescriptor] = []

    def file(self, path: Path, name: str) -> InParts:
        """Send a file in segments of its own."""
        with path.open("rb") as file:
            return InParts(name=name, parts=list(self._cut(bundle_segments.pieces(file))))

    def changed(self, path: Path, name: str, ranges: Sequence[PageRange], earlier: SentBundle) -> InParts:
        """Send the new ranges of a file; the others are named as parts of segments that were sent before."""
        parts: list[FilePart] = []
        held, waiting = bytearray(), list[int]()

        def flush() -> None:
            number = self._place(bytes(held)) if held else None
            for place in waiting:
                parts[place] = parts[place].model_copy(update={"segment": number})
            held.clear()
            waiting.clear()

        with path.open("rb") as file:
            at = 0
            for one in ranges:
                file.seek(at)
                if one.name is not None:
                    parts += (self._again(part, earlier) for part in earlier.parts(one))
                    self._report(one.size)
                elif one.size >= bundle_segments.LEAST_SEGMENT:
                    parts += self._cut(bundle_segments.pieces(_Limited(file, one.size)))
                else:
                    waiting.append(len(parts))
                    parts.append(FilePart(offset=len(held), bytes=one.size))
                    held += file.read(one.size)
                    if len(held) >= bundle_segments.LEAST_SEGMENT:
                        flush()
                at += one.size
        flush()
        return InParts(name=name, parts=parts)

    def together(self, small: Iterable[tuple[str, bytes]]) -> Iterator[InParts]:
        """Send small files in common segments."""
        for data, places in bundle_segments.together(small):
            number = self._place(data) if data else None
            for name, offset, size in places:
                part = FilePart(segment=number, offset=offset, bytes=size)
                yield InParts(name=name, parts=[part] if size else [])

    def _cut(self, pieces: Iterable[FilePiece]) -> Iterator[FilePart]:
        for piece in pieces:
            number = None if piece.data is None else self._place(piece.data)
            yield FilePart(segment=number, bytes=piece.size)

    def _again(self, part: FilePart, earlier: SentBundle) -> FilePart:
        if part.segment is None:
            return part
        segment = earlier.segments[part.segment]
        number = self._numbers.get(segment.blake3)
        if number is None:
            number = self._add(segment, earlier.blobs[part.segment])
        return part.model_copy(update={"segment": number})

    def _place(self, data: bytes) -> int:
        """Send a segment, once; one that was packed before and is there already is not packed again."""
        name = blake3(data).hexdigest()
        if name not in self._numbers:
            packed = self._series.packed
            known = packed.get(name)
            if known is None or not self._has(known):
                known = packed[name] = self._put(media.SEGMENT, bundle_segments.segment(data))
            self._add(LayerSegment(bytes=len(data), blake3=name), known)
        self._report(len(data))
        return self._numbers[name]

    def _add(self, segment: LayerSegment, blob: BlobDescriptor) -> int:
        self._numbers[segment.blake3] = len(self.segments)
        self.segments.append(segment)
        self.blobs.append(blob)
        return self._numbers[segment.blake3]


class _Limited:
    """The next bytes of a file, up to a number."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data
