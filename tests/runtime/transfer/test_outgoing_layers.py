from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.transfer.outgoing_parts import OutgoingLayers, Remembered
from holdfast.snapshots.bundle import bundle_segments, form, image_layers, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.image_layers import Hashed, ImageFacts
from holdfast.snapshots.bundle.image_source import MadeImage
from holdfast.snapshots.bundle.sealing import Sealing
from holdfast.snapshots.bundle.squashed_layers import LeavingImage

FIRST, SECOND = os.urandom(100_000), os.urandom(50_000)
IDS = [form.described("", data).digest for data in (FIRST, SECOND)]


class There:
    """A destination that keeps what it is given."""

    def __init__(self, engine_has: int = 0) -> None:
        self.engine_has = engine_has
        self.blobs: dict[str, bytes] = {}

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        return self.engine_has

    def has(self, blob: BlobDescriptor) -> bool:
        return blob.digest in self.blobs

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        self.blobs[blob.digest] = data.read()

    def finish(self, index: bytes) -> str:
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the layers requested from an engine; its image has two, and it also delivers another."""
    asked: list[str] = []

    def each(_engine: Any, _ref: str, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
        asked.extend(wanted)
        if wanted:
            for data in (SECOND, b"another", FIRST):
                take(Hashed([data[:7], data[7:]], form.described("", data).digest))

    monkeypatch.setattr(image_layers, "each", each)
    facts = ImageFacts("amd64", "linux", {}, tuple(IDS))
    monkeypatch.setattr(image_layers, "look", lambda _engine, _ref: facts)
    return asked


def _layers(tmp_path: Path, seal: Sealing | None = None, compression: str = "gzip") -> OutgoingLayers:
    engine: Any = None
    image = LeavingImage(MadeImage(engine, "x"), tmp_path, tmp_path / "cache/squashed.json")
    return OutgoingLayers(image, compression, tmp_path, Remembered(tmp_path / "cache/layers.json"), seal)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_layers_arrive_in_the_order_of_the_image(tmp_path: Path, read: list[str], compression: str) -> None:
    """Whatever the order in which the engine delivers them; others are skipped."""
    there = There()
    told: list[int] = []
    found = _layers(tmp_path, compression=compression).send(there, told.append)

    assert [one.annotations[media.RAW_BYTES] for one in found] == ["100000", "50000"]
    assert len(there.blobs) == 2
    assert sorted(told) == [50_000, 100_000]
    with io.BytesIO(there.blobs[found[0].digest]) as stream:
        assert b"".join(bundle_segments.opened(stream, compression, 100_000)) == FIRST


def test_existing_blobs_are_not_even_read(tmp_path: Path, read: list[str]) -> None:
    """The result for a layer is remembered, also for the next sender."""
    there = There()
    first = _layers(tmp_path).send(there, lambda _: None)
    read.clear()
    again = _layers(tmp_path).send(there, lambda _: None)
    assert (again, read) == (first, [])

    del there.blobs[first[1].digest]
    assert _layers(tmp_path).send(there, lambda _: None) == first
    assert read == [IDS[1]]
    assert len(there.blobs) == 2


def test_layers_of_the_other_engine_are_not_compressed(tmp_path: Path, read: list[str]) -> None:
    """Nor sent; they are named by their digests, and not read again for the next sender."""
    there = There(engine_has=1)
    found = _layers(tmp_path).send(there, lambda _: None)
    assert (found[0].media_type, found[0].digest, found[0].size) == (media.LAYER, IDS[0], 100_000)
    assert found[1].media_type == media.LAYER_GZIP
    assert list(there.blobs) == [found[1].digest]
    read.clear()
    assert _layers(tmp_path).send(there, lambda _: None) == found
    assert read == []


def test_an_invalid_note_is_not_believed(tmp_path: Path, read: list[str]) -> None:
    """It is a cache: without it, layers are read again."""
    (tmp_path / "cache").mkdir()
    name = f"gzip-isal-2 {IDS[0]}"
    for text in ("", "[]", json.dumps({name: ["x", 1, 2]}), json.dumps({name: 5})):
        (tmp_path / "cache/layers.json").write_text(text)
        read.clear()
        _layers(tmp_path).send(There(), lambda _: None)
        assert read == IDS


def test_encrypted_layers_are_not_shared(tmp_path: Path, read: list[str]) -> None:
    """They are new each time, are not remembered, and say what they are."""
    sealing = Sealing(os.urandom(32))
    there = There()
    first = _layers(tmp_path, sealing).send(there, lambda _: None)
    second = _layers(tmp_path, sealing).send(there, lambda _: None)

    assert {one.digest for one in first} & {one.digest for one in second} == set()
    assert all(media.is_sealed(one.media_type) for one in first)
    assert not (tmp_path / "cache").exists()
    packed = b"".join(sealing.open(io.BytesIO(there.blobs[first[1].digest])))
    assert b"".join(bundle_segments.opened(io.BytesIO(packed), "gzip", 50_000)) == SECOND


def test_an_unknown_compression_is_refused(tmp_path: Path, read: list[str]) -> None:
    """Before anything is read."""
    with pytest.raises(InvalidArgument, match="not a known"):
        _layers(tmp_path, compression="lz4")
