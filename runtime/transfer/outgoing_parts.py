"""The parts of one outgoing bundle: image layers, read from the engine and compressed, and segments of files.
Parts that exist or were sent before are only named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from blake3 import blake3

from holdfast.base import private_files
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.transfer.bundle_series import BundleSeries, SentBundle
from holdfast.runtime.transfer.searched_parts import SearchedLayers
from holdfast.snapshots.bundle import bundle_segments, media
from holdfast.snapshots.bundle.endpoints import DIGEST, BlobDescriptor, BundleDestination
from holdfast.snapshots.bundle.form import FileInParts, FilePart, LayerSegment
from holdfast.snapshots.bundle.image_layers import Hashed
from holdfast.snapshots.bundle.sealing import Sealing

if TYPE_CHECKING:
    from holdfast.snapshots.bundle.bundle_segments import FilePiece
    from holdfast.snapshots.bundle.earlier_pages import PageRange
    from holdfast.snapshots.bundle.squashed_layers import LeavingImage


KINDS = {
    "gzip": (media.LAYER_GZIP, bundle_segments.gzip, f"gzip-isal-{bundle_segments.GZIP_LEVEL}"),
    "zstd": (media.LAYER_ZSTD, bundle_segments.zstd, f"zstd-{bundle_segments.ZSTD_LEVEL}"),
}
"""Media type, command, and name in the cache: another level gives other bytes."""


class Remembered:
    """A cache of compressed layers by diff id: digest, size, and size before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[object]] = {}
        with suppress(OSError, ValueError):
            found = json.loads(path.read_text())
            if isinstance(found, dict):
                self._known = found

    def get(self, key: str, media_type: str) -> BlobDescriptor | None:
        """Return a layer's earlier compressed form."""
        match self._known.get(key):
            case [str(digest), int(size), int(raw)] if DIGEST.fullmatch(digest):
                return BlobDescriptor(media_type, digest, size, {media.RAW_BYTES: str(raw)})
        return None

    def add(self, key: str, made: BlobDescriptor) -> None:
        """Remember a compressed form. Losing it only costs time."""
        self._known[key] = [made.digest, made.size, int(made.annotations[media.RAW_BYTES])]
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(self._path, json.dumps(self._known), durable=False)


class OutgoingLayers:
    """The layers of one image, in transit to one destination."""

    def __init__(
        self,
        image: LeavingImage,
        compression: str,
        scratch: Path,
        remembered: Remembered,
        seal: Sealing | None = None,
        searched: SearchedLayers | None = None,
    ) -> None:
        if compression not in KINDS:
            raise InvalidArgument(
                f"cannot compress layers with {compression[:40]!r}: it is not a known compression",
                hint="gzip or zstd",
            )
        self._image = image
        self._scratch = scratch
        self._remembered = remembered
        self._seal = seal
        self._searched = searched
        self._media_type, self._pack, self._name = KINDS[compression]
        if seal is not None:
            self._media_type += media.ENCRYPTED

    def send(self, destination: BundleDestination, report: Callable[[int], None]) -> list[BlobDescriptor]:
        """Send the layers that the destination lacks; return descriptors of all of them, the lowest first.

        `report` is called with the uncompressed size of each layer when it is done.
        """
        diff_ids = self._image.facts.layers
        done: dict[str, BlobDescriptor] = {}
        there = frozenset(diff_ids[: destination.layers_there(diff_ids)])
        for diff_id in diff_ids:
            known = (self._uncompressed(diff_id) if diff_id in there else None) or self._known(diff_id)
            if known is not None and (diff_id in there or destination.has(known)):
                done[diff_id] = known
                report(int(known.annotations[media.RAW_BYTES]))

        def take(layer: Hashed) -> None:
            stays = layer.wanted in there
            made = self._named(layer) if stays else self._compress(layer)
            if layer.digest in diff_ids and layer.digest not in done:
                if layer.digest not in there and not destination.has(made):
                    with (self._scratch / "layer").open("rb") as packed:
                        destination.put(made, packed)
                done[layer.digest] = made
                if self._seal is None:
                    self._remembered.add(f"{'tar' if stays else self._name} {layer.digest}", made)
                report(layer.size)

        missing = [diff_id for diff_id in dict.fromkeys(diff_ids) if diff_id not in done]
        self._image.each(missing, take)
        return [done[diff_id] for diff_id in diff_ids]

    def _known(self, diff_id: str) -> BlobDescriptor | None:
        """Return an earlier compressed form; never for encrypted layers, which differ each time."""
        return None if self._seal else self._remembered.get(f"{self._name} {diff_id}", self._media_type)

    def _uncompressed(self, diff_id: str) -> BlobDescriptor | None:
        """Return a layer that does not have to be sent, as it was described earlier."""
        return self._remembered.get(f"tar {diff_id}", media.LAYER)

    def _named(self, layer: Hashed) -> BlobDescriptor:
        """Read a layer that does not have to be sent: its descriptor tells its size, and compressing takes
        longest."""
        for _ in self._read(layer):
            pass
        return BlobDescriptor(media.LAYER, layer.digest, layer.size, {media.RAW_BYTES: str(layer.size)})

    def _read(self, layer: Hashed) -> Iterable[bytes]:
        return layer if self._searched is None else self._searched.passing(layer)

    def _compress(self, layer: Hashed) -> BlobDescriptor:
        digest, size = hashlib.sha256(), 0
        try:
            with private_files.create(self._scratch / "layer") as file:
                packed = self._pack(self._read(layer))
                for piece in packed if self._seal is None else self._seal.seal(packed):
                    digest.update(piece)
                    size += len(piece)
                    file.write(piece)
        except OSError as error:
            raise StoreError(f"cannot write to {self._scratch}: {error.strerror or error}") from error
        return BlobDescriptor(
            self._media_type, f"sha256:{digest.hexdigest()}", size, {media.RAW_BYTES: str(layer.size)}
        )


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

    def file(self, path: Path, name: str) -> FileInParts:
        """Send a file in segments of its own."""
        with path.open("rb") as file:
            return FileInParts(name=name, parts=list(self._cut(bundle_segments.pieces(file))))

    def changed(self, path: Path, name: str, ranges: Sequence[PageRange], earlier: SentBundle) -> FileInParts:
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
        return FileInParts(name=name, parts=parts)

    def together(self, small: Iterable[tuple[str, bytes]]) -> Iterator[FileInParts]:
        """Send small files in common segments."""
        for data, places in bundle_segments.together(small):
            number = self._place(data) if data else None
            for name, offset, size in places:
                part = FilePart(segment=number, offset=offset, bytes=size)
                yield FileInParts(name=name, parts=[part] if size else [])

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
        """Send a segment, once; an existing segment that was packed before is not packed again."""
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
