"""The archive of the portable guest in a home's cache: checked at each use, and never trusted without."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import ImageError
from holdfast.runtime.lifecycle import portable_archive

LAYER = b"the layer" * 5000
DIGEST = f"sha256:{hashlib.sha256(LAYER).hexdigest()}"
IMAGE = "holdfast/portable:abc"


class Images:
    """An engine's images: one, which it gives as often as it is asked."""

    def __init__(self) -> None:
        self.layer, self.saved = LAYER, 0

    def described(self, ref: str) -> dict[str, Any]:
        assert ref.startswith("holdfast/portable:")
        return {"RootFS": {"Layers": [DIGEST]}}

    def save(self, ref: str, block: int) -> Iterator[bytes]:
        assert block > 0
        self.saved += 1
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as made:
            manifest = json.dumps([{"Layers": ["1/layer.tar"]}]).encode()
            for name, data in (("manifest.json", manifest), ("1/layer.tar", gzip.compress(self.layer))):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                made.addfile(member, io.BytesIO(data))
        yield buffer.getvalue()


@pytest.fixture
def images() -> Images:
    return Images()


@pytest.fixture
def engine(images: Images) -> Any:
    return SimpleNamespace(images=images)


def test_the_engine_is_asked_once(home: Home, engine: Any, images: Images) -> None:
    first = portable_archive.obtain(engine, home, IMAGE)
    assert portable_archive.obtain(engine, home, IMAGE) == first
    assert first.read_bytes() == LAYER
    assert images.saved == 1
    assert list(home.staging.iterdir()) == []
    assert portable_archive.obtain(engine, home, "holdfast/portable:def") != first


@pytest.mark.parametrize("forged", [LAYER[:-1], b"", LAYER[:-1] + b"x", LAYER + b"\0"])
def test_another_content_is_not_used(home: Home, engine: Any, images: Images, forged: bytes) -> None:
    """Cut off, changed or continued: the engine gives it again."""
    portable_archive.obtain(engine, home, IMAGE).write_bytes(forged)
    assert portable_archive.obtain(engine, home, IMAGE).read_bytes() == LAYER
    assert images.saved == 2


def test_a_folder_in_its_place_is_an_error_and_not_a_guest(home: Home, engine: Any) -> None:
    kept = portable_archive.obtain(engine, home, IMAGE)
    kept.unlink()
    kept.mkdir()
    with pytest.raises(OSError, match="directory"):
        portable_archive.obtain(engine, home, IMAGE)


def test_what_the_engine_gives_is_checked_as_well(home: Home, engine: Any, images: Images) -> None:
    images.layer = b"other"
    with pytest.raises(ImageError, match="another layer than its own"):
        portable_archive.obtain(engine, home, IMAGE)
    assert list((home.root / "cache").iterdir()) == []
    assert list(home.staging.iterdir()) == []


def test_it_is_garbage_when_it_was_not_used_lately(home: Home, engine: Any) -> None:
    """Its use counts, whenever it was made. Other files of the cache stay."""
    kept = portable_archive.obtain(engine, home, IMAGE)
    other = kept.with_name("layers.json")
    other.write_text("{}")
    for path in (kept, other):
        os.utime(path, (0, 0))
    assert list(portable_archive.unused(home, 3600)) == [kept]
    portable_archive.obtain(engine, home, IMAGE)
    assert list(portable_archive.unused(home, 3600)) == []
