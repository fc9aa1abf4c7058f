from __future__ import annotations

import io
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Self

import pytest
from blake3 import blake3

from holdfast.errors import BundleRefused, StoreError
from holdfast.runtime.transfer import unpack_parts
from holdfast.runtime.transfer.unpack_parts import BundleSegments, BundleSource
from holdfast.snapshots.bundle import bundle_segments, form, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.form import BundleConfig, FileInParts, FilePart, LayerSegment
from holdfast.snapshots.manifest import Manifest, StoredFile


class Blobs:
    """An origin of some bytes, which records the requests."""

    name = "somewhere"

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.asked: list[str] = []

    def add(self, media_type: str, data: bytes, **annotations: str) -> BlobDescriptor:
        found = form.described(media_type, data, annotations)
        self.blobs[found.digest] = data
        return found

    def index(self) -> bytes:
        return b""

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        self.asked.append(blob.digest)
        return io.BytesIO(self.blobs[blob.digest][start:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def origin() -> Blobs:
    return Blobs()


def _segments(origin: Blobs, *data: bytes) -> BundleSegments:
    blobs = [origin.add(media.SEGMENT, bundle_segments.segment(each)) for each in data]
    told = [LayerSegment(bytes=len(each), blake3=blake3(each).hexdigest()) for each in data]
    return BundleSegments(BundleSource(origin), blobs, told, lambda _count: None)


def _config(sizes: Mapping[str, int] | None = None, kind: str = "live") -> BundleConfig:
    sizes = sizes or {}
    files = [StoredFile(name=name, bytes=size, blake3="0" * 64) for name, size in sizes.items()]
    kept = Manifest.model_validate(
        {
            "id": "0" * 12,
            "kind": kind,
            "label": None,
            "created_at": datetime.now(UTC),
            "session": "1" * 12,
            "session_name": "work",
            "generation": 0,
            "parent": None,
            "image": "",
            "options": {},
            "processes": None,
            "files": files,
        }
    )
    parts = [FileInParts(name=name, parts=[FilePart(bytes=size)]) for name, size in sizes.items()]
    return BundleConfig(snapshot=kept, base=1, segments=[], files=parts)


def test_a_file_is_put_together_of_parts_and_zeros(origin: Blobs, tmp_path: Path) -> None:
    """Zeros are holes, also at its end."""
    segments = _segments(origin, b"hello", b"world")
    file = FileInParts(
        name="x",
        parts=[
            FilePart(segment=1, offset=1, bytes=3),
            FilePart(bytes=1 << 20),
            FilePart(segment=0, bytes=5),
            FilePart(bytes=4096),
        ],
    )
    segments.write(file, tmp_path / "x")

    assert (tmp_path / "x").read_bytes() == b"orl" + bytes(1 << 20) + b"hello" + bytes(4096)
    assert (tmp_path / "x").stat().st_blocks * 512 < 1 << 20


def test_a_wrong_segment_is_refused(origin: Blobs, tmp_path: Path) -> None:
    """Changed on its way, exchanged for one of the same size, of the wrong kind, or beyond its end."""
    for change in ("bytes", "other", "kind", "beyond"):
        segments = _segments(origin, b"hello")
        blob = form.described(media.SEGMENT, bundle_segments.segment(b"hello"))
        if change == "bytes":
            origin.blobs[blob.digest] = bundle_segments.segment(b"jello")
        elif change == "other":
            segments = BundleSegments(
                BundleSource(origin),
                [origin.add(media.SEGMENT, bundle_segments.segment(b"jello"))],
                [LayerSegment(bytes=5, blake3=blake3(b"hello").hexdigest())],
                lambda _count: None,
            )
        elif change == "kind":
            segments._blobs = [origin.add(media.LAYER_GZIP, bundle_segments.segment(b"hello"))]
        part = FilePart(segment=0, offset=3, bytes=5 if change == "beyond" else 2)
        path = tmp_path / change
        with pytest.raises(BundleRefused):
            segments.write(FileInParts(name="x", parts=[part]), path)


def test_files_that_jump_between_segments_are_refused(origin: Blobs, tmp_path: Path) -> None:
    """Each jump would open a segment again; an ordinary bundle's repetitions are within bounds."""
    segments = _segments(origin, b"hello", b"world")
    ordinary = [FilePart(segment=number, bytes=5) for number in (0, 1, 0, 1)]
    segments.write(FileInParts(name="x", parts=ordinary), tmp_path / "ordinary")
    jumping = [FilePart(segment=number % 2, bytes=1) for number in range(100)]

    with pytest.raises(BundleRefused, match="far more segments"):
        segments.write(FileInParts(name="y", parts=jumping), tmp_path / "jumping")


def test_a_layer_is_verified_before_and_after_it_is_opened(origin: Blobs, tmp_path: Path) -> None:
    """With its digest, its size, and the diff id; data after its end also counts."""
    data = os.urandom(300_000)
    packed = b"".join(bundle_segments.gzip([data]))
    size = {media.RAW_BYTES: str(len(data))}
    diff_id = form.described("", data).digest
    good = origin.add(media.LAYER_GZIP, packed, **size)
    unpack_parts.layer(BundleSource(origin), good, diff_id, tmp_path / "good", lambda _count: None)
    assert (tmp_path / "good").read_bytes() == data

    changed = origin.add(media.LAYER_GZIP, packed + b"", **size)
    for number, (blob, wanted) in enumerate(
        (
            (changed, "sha256:" + "0" * 64),
            (BlobDescriptor(media.LAYER_GZIP, good.digest, good.size - 1, size), diff_id),
            (BlobDescriptor(media.LAYER_GZIP, good.digest, good.size, {media.RAW_BYTES: "5"}), diff_id),
            (BlobDescriptor(media.LAYER_GZIP, good.digest, good.size, {}), diff_id),
            (BlobDescriptor(media.LAYER_GZIP, good.digest, good.size, {media.RAW_BYTES: "-1"}), diff_id),
            (BlobDescriptor("application/x-elf", good.digest, good.size, size), diff_id),
        )
    ):
        with pytest.raises(BundleRefused):
            unpack_parts.layer(
                BundleSource(origin), blob, wanted, tmp_path / str(number), lambda _count: None
            )
    origin.blobs[good.digest] = packed[:-4] + b"????"
    with pytest.raises(BundleRefused):
        unpack_parts.layer(BundleSource(origin), good, diff_id, tmp_path / "last", lambda _count: None)


def test_a_document_is_bounded_and_verified(origin: Blobs) -> None:
    """Before it is read, where possible."""
    found = origin.add(media.MANIFEST, b"{}")

    assert BundleSource(origin).document(found, 100) == b"{}"
    with pytest.raises(BundleRefused, match="more than"):
        BundleSource(origin).document(found, 1)
    origin.blobs[found.digest] = b"[]"
    with pytest.raises(BundleRefused, match="digest"):
        BundleSource(origin).document(found, 100)
    with pytest.raises(BundleRefused, match="encrypted"):
        BundleSource(origin).document(origin.add(media.IMAGE_CONFIG + media.ENCRYPTED, b"x"), 100)


def test_a_download_larger_than_the_disk_is_not_started(tmp_path: Path) -> None:
    """The error comes in advance, with the size."""
    with pytest.raises(StoreError, match="MiB are free"):
        unpack_parts.check_room(tmp_path, 1 << 60)
    unpack_parts.check_room(tmp_path, 1)


def test_a_bundle_has_the_files_of_its_manifest_and_no_others() -> None:
    """Under valid names of snapshot files, each once; processes only if it is live."""
    unpack_parts.check_names(_config({"record.json.gz": 5, "images/core-5.img": 7}), "journal")
    for config in (
        _config({"images/core-5.img": 7}, "filesystem"),
        _config({"images/../x": 1}),
        _config({"manifest.json": 1}),
        _config({"images/core-5.img": 7}).model_copy(update={"files": []}),
        _config().model_copy(update={"files": [FileInParts(name="images/core-5.img", parts=[])]}),
    ):
        with pytest.raises(BundleRefused):
            unpack_parts.check_names(config, "journal")


def test_no_file_occurs_twice() -> None:
    """The last one would count for some readers, and the first for others."""
    once = _config({"image.json": 3, "manifest.json": 3})
    name = once.files[0].name
    twice = once.model_copy(update={"files": [*once.files, once.files[0]]})
    with pytest.raises(BundleRefused, match="two files with the same name"):
        unpack_parts.check_names(twice, besides=name)
    kept = once.snapshot.model_copy(update={"files": [*once.snapshot.files, once.snapshot.files[0]]})
    with pytest.raises(BundleRefused, match="two files with the same name"):
        unpack_parts.check_names(once.model_copy(update={"snapshot": kept}), besides=name)


def test_there_are_as_many_segments_as_are_described(origin: Blobs) -> None:
    blob = origin.add(media.SEGMENT, bundle_segments.segment(b"hello"))
    with pytest.raises(BundleRefused, match="not have the declared number of segments"):
        BundleSegments(BundleSource(origin), [blob, blob], [], lambda _count: None)


def test_a_text_is_not_read_beyond_its_limit(origin: Blobs) -> None:
    """Neither what is longer, nor a hole, which costs its sender nothing; nothing is fetched for either."""
    segments = _segments(origin, b"hello")
    part = FilePart(segment=0, bytes=5)
    assert segments.text(FileInParts(name="x", parts=[part]), 5) == b"hello"
    origin.asked.clear()
    for parts in ([part, part], [FilePart(bytes=1)]):
        with pytest.raises(BundleRefused, match="x is too large"):
            segments.text(FileInParts(name="x", parts=parts), 5)
    assert origin.asked == []
