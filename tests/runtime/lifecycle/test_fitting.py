"""The archive of the portable guest in a home's cache: checked at each use, and never trusted without."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import ImageError
from holdfast.runtime.lifecycle import fitting
from holdfast.runtime.lifecycle.fitting import PortableLayer, take_layer

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
    first = fitting.portable_archive(engine, home, IMAGE)
    assert fitting.portable_archive(engine, home, IMAGE) == first
    assert first.read_bytes() == LAYER
    assert images.saved == 1
    assert list(home.staging.iterdir()) == []
    assert fitting.portable_archive(engine, home, "holdfast/portable:def") != first


@pytest.mark.parametrize("forged", [LAYER[:-1], b"", LAYER[:-1] + b"x", LAYER + b"\0"])
def test_another_content_is_not_used(home: Home, engine: Any, images: Images, forged: bytes) -> None:
    """Cut off, changed or continued: the engine gives it again."""
    fitting.portable_archive(engine, home, IMAGE).write_bytes(forged)
    assert fitting.portable_archive(engine, home, IMAGE).read_bytes() == LAYER
    assert images.saved == 2


def test_a_folder_in_its_place_is_an_error_and_not_a_guest(home: Home, engine: Any) -> None:
    kept = fitting.portable_archive(engine, home, IMAGE)
    kept.unlink()
    kept.mkdir()
    with pytest.raises(OSError, match="directory"):
        fitting.portable_archive(engine, home, IMAGE)


def test_data_of_the_engine_is_checked_as_well(home: Home, engine: Any, images: Images) -> None:
    images.layer = b"other"
    with pytest.raises(ImageError, match="a different layer"):
        fitting.portable_archive(engine, home, IMAGE)
    assert list((home.root / "cache").iterdir()) == []
    assert list(home.staging.iterdir()) == []


def test_an_adapted_image_is_garbage_when_unused(home: Home, engine: Any) -> None:
    """Its use counts, whenever it was made. Other files of the cache stay."""
    kept = fitting.portable_archive(engine, home, IMAGE)
    other = kept.with_name("layers.json")
    other.write_text("{}")
    for path in (kept, other):
        os.utime(path, (0, 0))
    assert list(fitting.unused_archives(home, 3600)) == [kept]
    fitting.portable_archive(engine, home, IMAGE)
    assert list(fitting.unused_archives(home, 3600)) == []


def archive(*names: str, data: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name in names:
            member = tarfile.TarInfo(name.rstrip("/"))
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.mode, member.mtime = 0o755, 1_700_000_000.25
            member.size = 0 if name.endswith("/") else len(data)
            made.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


LAYER_portable_layer = archive("opt/", "opt/holdfast/", "opt/holdfast/a", "opt/holdfast/b/", data=b"contents")


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    path = tmp_path / "layer"
    path.write_bytes(LAYER_portable_layer)
    return path


def members(made: PortableLayer) -> dict[str, tarfile.TarInfo]:
    data = b"".join(made.read())
    assert len(data) == made.size
    assert made.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        file = opened.extractfile("opt/holdfast/a")
        assert file
        assert file.read() == b"contents"
        return {each.name: each for each in opened}


def test_the_folder_above_is_as_the_image_has_it(layer: Path) -> None:
    """But every user passes through it. The image's content in the guest's place is hidden."""
    above = tarfile.TarInfo("opt")
    above.type, above.mode, above.uid, above.gid = tarfile.DIRTYPE, 0o700, 12, 34
    found = members(PortableLayer(layer, above))
    assert list(found) == [
        "opt",
        "opt/holdfast",
        "opt/holdfast/.wh..wh..opq",
        "opt/holdfast/a",
        "opt/holdfast/b",
    ]
    assert (found["opt"].mode, found["opt"].uid, found["opt"].gid) == (0o711, 12, 34)


def test_without_such_a_folder_it_is_a_usual_one(layer: Path) -> None:
    found = members(PortableLayer(layer, None))["opt"]
    assert (found.isdir(), found.mode, found.uid) == (True, 0o755, 0)


def test_a_link_in_its_place_is_refused(layer: Path) -> None:
    """The content below it would be somewhere else."""
    link = tarfile.TarInfo("opt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    with pytest.raises(ImageError, match="its /opt is not a folder"):
        PortableLayer(layer, link)


def saved(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "saved"
    with tarfile.open(path, "w") as made:
        manifest = json.dumps([{"Layers": ["blobs/sha256/1"]}]).encode()
        for name, content in (("blobs/sha256/1", data), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "compressed"])
def test_the_layer_is_taken_from_a_saved_image(tmp_path: Path, pack: type[bytes]) -> None:
    """Stores keep it compressed or not."""
    target = tmp_path / "taken"
    take_layer(
        saved(tmp_path, pack(LAYER_portable_layer)),
        target,
        f"sha256:{hashlib.sha256(LAYER_portable_layer).hexdigest()}",
    )
    assert target.read_bytes() == LAYER_portable_layer


def test_another_layer_is_not_taken(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    with pytest.raises(ImageError, match="a different layer"):
        take_layer(
            saved(tmp_path, b"other"), target, f"sha256:{hashlib.sha256(LAYER_portable_layer).hexdigest()}"
        )
    assert not target.exists()
