"""Layers in the answer of `docker save`: as they are, or compressed as the store received them."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard

from holdfast.engine.image_store import ImageStore
from holdfast.errors import EngineError
from holdfast.snapshots.bundle import image_layers

LAYER = b"a layer " * 400_000
DIFF_ID = f"sha256:{hashlib.sha256(LAYER).hexdigest()}"
HALF = len(LAYER) // 2
ZSTD = zstandard.ZstdCompressor()


class Saving:
    """An engine with one image of one layer, which it keeps in this form."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self.images = self
        self.layers = SimpleNamespace(store=lambda: ImageStore.CONTAINERD)

    def described(self, _ref: str) -> dict[str, Any]:
        return {"Architecture": "amd64", "Os": "linux", "Config": {}, "RootFS": {"Layers": [DIFF_ID]}}

    def save(self, _ref: str, block: int) -> Iterator[bytes]:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, data in (("blobs/sha256/config", b"{}"), ("blobs/sha256/layer", self._blob)):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        for at in range(0, packed.tell(), block):
            yield packed.getvalue()[at : at + block]


def read(blob: bytes) -> list[str]:
    found: list[str] = []

    def take(layer: image_layers.Hashed) -> None:
        for _ in layer:
            pass
        found.append(layer.digest)

    engine: Any = Saving(blob)
    image_layers.each(engine, "ref", [DIFF_ID], take)
    return found


@pytest.mark.parametrize(
    "blob",
    [
        LAYER,
        gzip.compress(LAYER, 1),
        gzip.compress(LAYER[:HALF], 1) + gzip.compress(LAYER[HALF:], 1),
        ZSTD.compress(LAYER),
        ZSTD.compress(LAYER[:HALF]) + ZSTD.compress(LAYER[HALF:]),
    ],
    ids=["plain", "gzip", "two members", "zstd", "two frames"],
)
def test_layers_are_found_however_they_are_kept(blob: bytes) -> None:
    assert DIFF_ID in read(blob)


@pytest.mark.parametrize("packed", [gzip.compress(LAYER, 1), ZSTD.compress(LAYER)], ids=["gzip", "zstd"])
def test_damaged_layers_are_not_layers(packed: bytes) -> None:
    """Cut off, or changed in their middle."""
    with pytest.raises(EngineError, match=r"damaged|have changed"):
        read(packed[: len(packed) // 2])
    with pytest.raises(EngineError, match=r"damaged|have changed"):
        read(packed[:20] + b"\xff" * 20 + packed[40:])
