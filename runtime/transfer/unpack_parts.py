"""Writes incoming layers and files, each compared with its digest and size before it is used.

Nothing is unpacked beyond its declared size, and no name of a bundle becomes a path before it was looked up
in `foreign_files`.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from holdfast.base import private_files
from holdfast.errors import BundleRefused, StoreError
from holdfast.runtime.transfer.bundle_series import EarlierImport
from holdfast.snapshots.bundle import bundle_segments, foreign_files, form, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor, BundleOrigin
from holdfast.snapshots.bundle.form import FileInParts, FilePart, LayerSegment
from holdfast.snapshots.bundle.sealing import Sealing

Advance = Callable[[int], None]
MARGIN = 256 << 20
"""Bytes that stay free on the disk."""
_KINDS = {
    media.LAYER: "tar",
    media.LAYER_GZIP: "gzip",
    media.LAYER_ZSTD: "zstd",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
}


@dataclass(frozen=True, slots=True)
class BundleSource:
    """The source of a bundle, and the key to its encrypted parts."""

    origin: BundleOrigin
    sealing: Sealing | None = None

    def document(self, blob: BlobDescriptor, limit: int) -> bytes:
        """Read a manifest or config whole.

        Raises:
            BundleRefused: it is too large, or does not match its digest.
        """
        if blob.size > limit:
            raise BundleRefused(f"cannot import: a document in it has {blob.size} bytes, more than {limit}")
        with closing(self.origin.open(blob)) as stream:
            data = stream.read(blob.size + 1)
        if len(data) != blob.size or form.described(blob.media_type, data).digest != blob.digest:
            raise _changed(blob)
        return b"".join(self.key(blob).open(io.BytesIO(data))) if media.is_sealed(blob.media_type) else data

    def key(self, blob: BlobDescriptor) -> Sealing:
        """Return the key to a part.

        Raises:
            BundleRefused: the part does not say for whom it is encrypted.
        """
        if self.sealing is None:
            raise BundleRefused("cannot import: it is encrypted but does not name its recipients")
        return self.sealing


def kind(blob: BlobDescriptor) -> str:
    """Return the media type of a part after decryption."""
    return blob.media_type.removesuffix(media.ENCRYPTED)


def check_room(folder: Path, needed: int) -> None:
    """Check that this many bytes can be written.

    Raises:
        StoreError: they cannot.
    """
    free = shutil.disk_usage(folder).free
    if needed + MARGIN > free:
        raise StoreError(
            f"cannot import: it takes {needed >> 20} MiB, and {free >> 20} MiB are free in {folder}",
            hint="make room, then try again",
        )


def layer(source: BundleSource, blob: BlobDescriptor, diff_id: str, path: Path, advance: Advance) -> None:
    """Write the archive of an image layer.

    Raises:
        BundleRefused: it differs from its description.
        StoreError: it cannot be written.
    """
    packing_kind = _KINDS.get(kind(blob))
    if packing_kind is None:
        raise BundleRefused(
            f"cannot import: a layer of its image has an unknown kind ({blob.media_type[:100]})"
        )
    opened = hashlib.sha256()
    with closing(source.origin.open(blob)) as stream, _writing(path) as file:
        packed = _Hashing(stream, blob.size)
        plain = _BundlePieces(source.key(blob).open(packed)) if media.is_sealed(blob.media_type) else packed
        for block in bundle_segments.opened(plain, packing_kind, raw_size(blob)):
            opened.update(block)
            file.write(block)
            advance(len(block))
        packed.finish(blob)
    if f"sha256:{opened.hexdigest()}" != diff_id:
        raise BundleRefused(
            "cannot import: a layer of its image differs from the one its config names",
            hint="it is forged or damaged",
        )


def raw_size(blob: BlobDescriptor) -> int:
    """Return the declared uncompressed size of a layer.

    Raises:
        BundleRefused: it does not declare one.
    """
    text = blob.annotations.get(media.RAW_BYTES, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise BundleRefused(f"cannot import: a layer of its image does not say its size ({media.RAW_BYTES})")
    return int(text)


class BundleSegments:
    """The segments of a bundle; each is read when it is needed, and the last one is kept.

    Parts that an `earlier` import has are copied from there. In total no more is unpacked than twice what
    they hold, and `room`: files that jump between segments would take for ever.
    """

    def __init__(
        self,
        source: BundleSource,
        blobs: Sequence[BlobDescriptor],
        segments: Sequence[LayerSegment],
        advance: Advance,
        room: int = 0,
        earlier: EarlierImport | None = None,
    ) -> None:
        if len(blobs) != len(segments):
            raise BundleRefused("cannot import: it does not have the declared number of segments")
        self._source = source
        self._blobs = blobs
        self._segments = segments
        self._advance = advance
        self._room = 2 * sum(segment.bytes for segment in segments) + room
        self._earlier = earlier
        self._last: tuple[int, bytes] | None = None

    def missing(self) -> list[BlobDescriptor]:
        """Return the segments that no earlier import has."""
        pairs = zip(self._segments, self._blobs, strict=True)
        return [blob for one, blob in pairs if self._earlier is None or not self._earlier.has(one, blob)]

    def data(self, number: int) -> bytes:
        """Return the contents of a segment.

        Raises:
            BundleRefused: they differ from their description.
        """
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        if number >= len(self._segments):
            raise BundleRefused("cannot import: a file in it names a segment that does not exist")
        blob, segment = self._blobs[number], self._segments[number]
        self._room -= segment.bytes
        if self._room < 0:
            raise BundleRefused("cannot import: its files are made of far more segments than they need")
        if kind(blob) != media.SEGMENT:
            raise BundleRefused(
                f"cannot import: a segment has an unknown kind ({form.shown(blob.media_type)})"
            )
        packed = self._source.document(blob, form.MAX_SEGMENT + (1 << 20))
        data = bundle_segments.open_segment(packed, segment.bytes)
        if blake3(data).hexdigest() != segment.blake3:
            raise _changed(blob)
        self._advance(len(data))
        self._last = (number, data)
        return data

    def write(self, file: FileInParts, path: Path) -> None:
        """Assemble a file; zeros become holes.

        Raises:
            BundleRefused: it differs from its description.
            StoreError: it cannot be written.
        """
        with _writing(path) as out:
            size = 0
            for part in file.parts:
                size += part.bytes
                if part.segment is None:
                    out.seek(size)
                    continue
                if self._copy(part, part.segment, out):
                    continue
                data = self.data(part.segment)[part.offset : part.offset + part.bytes]
                if len(data) != part.bytes:
                    raise BundleRefused("cannot import: a file in it goes beyond its segment")
                out.write(data)
            out.truncate(size)

    def _copy(self, part: FilePart, number: int, out: BinaryIO) -> bool:
        """Copy a part from an earlier import, and return whether that has it."""
        if self._earlier is None or number >= len(self._segments):
            return False
        copied = self._earlier.copy(self._segments[number], self._blobs[number], part, out)
        if copied:
            self._advance(part.bytes)
        return copied

    def text(self, file: FileInParts, limit: int) -> bytes:
        """Return a small file, without writing it anywhere.

        Raises:
            BundleRefused: it is too large.
        """
        if sum(part.bytes for part in file.parts) > limit or any(part.segment is None for part in file.parts):
            raise BundleRefused(f"cannot import: {form.shown(file.name)} is too large")
        return b"".join(
            self.data(part.segment or 0)[part.offset : part.offset + part.bytes] for part in file.parts
        )


def check_names(config: form.BundleConfig, besides: str) -> None:
    """Check that a bundle has the files of its manifest, each once, under valid names.

    `besides` is not a file of the snapshot.

    Raises:
        BundleRefused: it does not.
    """
    sizes = {entry.name: entry.bytes for entry in config.snapshot.files}
    given = {file.name: sum(part.bytes for part in file.parts) for file in config.files}
    if len(sizes) != len(config.snapshot.files) or len(given) != len(config.files):
        raise BundleRefused("cannot import: it has two files with the same name")
    live = config.snapshot.kind == "live"
    for name in sizes:
        if not foreign_files.belongs(name) or (foreign_files.is_of_processes(name) and not live):
            raise BundleRefused(f"cannot import: a snapshot has no file called {form.shown(name)}")
    given.pop(besides, None)
    if given != sizes:
        raise BundleRefused("cannot import: its files do not match its manifest")


class _writing:  # noqa: N801 - used as a function
    """A new file; errors of the disk are translated."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> BinaryIO:
        try:
            self._file = private_files.create(self._path, new=True)
        except OSError as error:
            raise self._unwritable(error) from error
        return self._file

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        try:
            self._file.close()
        except OSError as late:
            error = error or late
        if isinstance(error, OSError) and not isinstance(error, StoreError) and error.errno:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(f"cannot import: {self._path} cannot be written ({error.strerror or error})")


class _Hashing:
    """A stream limited to a given number of bytes, with their digest."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = size
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        self._hash.update(data)
        return data

    def finish(self, blob: BlobDescriptor) -> None:
        """Read the rest, and compare."""
        while self.read(1 << 20):
            pass
        if self._left or f"sha256:{self._hash.hexdigest()}" != blob.digest:
            raise _changed(blob)


class _BundlePieces:
    """The output of a generator, as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._held = piece
        found, self._held = (self._held, b"") if size < 0 else (self._held[:size], self._held[size:])
        return found


def _changed(blob: BlobDescriptor) -> BundleRefused:
    return BundleRefused(
        f"cannot import: {blob.digest[:19]}… in it does not match its digest",
        hint="it is damaged, or was changed in transit: get it again",
    )
