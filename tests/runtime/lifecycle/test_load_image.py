"""What the engine is asked to load, and what it never gets to see."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.lifecycle.test_image_file import LAYERS, config

from holdfast.base.home import Home
from holdfast.errors import ImageError
from holdfast.runtime.lifecycle import load_image


class Images:
    """An engine that keeps the names of what it was given whole."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def exists(self, name: str) -> bool:
        return name in self.names

    def load(self, archive: Iterable[bytes], what: str) -> None:
        with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as opened:
            listed = opened.extractfile("manifest.json")
            assert listed
            self.names += json.load(listed)[0]["RepoTags"]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def context(home: Home, said: list[str]) -> Any:
    engine = SimpleNamespace(images=Images(), platform="linux/amd64")
    return SimpleNamespace(engine=engine, home=home, progress=said.append)


def saved(path: Path, about: bytes, layers: tuple[bytes, ...] = LAYERS) -> Path:
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    files = dict(zip(names, layers, strict=True)) | {"c.json": about}
    files["manifest.json"] = json.dumps([{"Config": "c.json", "Layers": names}]).encode()
    with tarfile.open(path, "w") as made:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return path


def test_an_image_is_loaded_once(context: Any, said: list[str], tmp_path: Path) -> None:
    """Also out of a compressed archive; nothing of it stays in the home."""
    path = saved(tmp_path / "app.tar", config())
    packed = tmp_path / "app.tar.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    name = load_image.load(context, packed)
    assert name.startswith("holdfast/provided:app-")
    assert load_image.load(context, path) == name
    assert context.engine.images.names == [name]
    assert said == [f"loading {packed}"]
    assert list(context.home.staging.iterdir()) == []


@pytest.mark.parametrize(
    ("about", "layers", "why"),
    [
        (config("s390x"), LAYERS, "it is for linux/s390x, and this engine's machine is linux/amd64"),
        (config(layers=()), (), "it has no files"),
        (config(), LAYERS[::-1], "it is damaged"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    context: Any, tmp_path: Path, about: bytes, layers: tuple[bytes, ...], why: str
) -> None:
    path = saved(tmp_path / "app.tar", about, layers)
    with pytest.raises(ImageError, match=f"^cannot use image {path}: {why}"):
        load_image.load(context, path)
    assert context.engine.images.names == []
    assert list(context.home.staging.iterdir()) == []


def test_files_that_are_none_or_end_early(context: Any, tmp_path: Path) -> None:
    """At any place, compressed or not."""
    path = saved(tmp_path / "app.tar", config())
    whole, packed = path.read_bytes(), gzip.compress(path.read_bytes())
    end = whole.index(b"manifest.json")  # what follows is padding
    cut = [whole[: end * part // 7] for part in range(8)] + [
        packed[: len(packed) * part // 7] for part in range(7)
    ]
    for data in (b"no archive", *cut):
        path.write_bytes(data)
        with pytest.raises(ImageError, match=f"^cannot use image {path}: "):
            load_image.load(context, path)
    with pytest.raises(ImageError, match="No such file or directory"):
        load_image.load(context, tmp_path / "none.tar")
    with pytest.raises(ImageError, match="neither what `docker save` writes nor an OCI layout"):
        load_image.load(context, tmp_path)
    assert context.engine.images.names == []


@pytest.mark.parametrize(
    ("text", "path"),
    [("./a.tar", True), ("/a", True), ("../a", True), ("~/a", True), ("a.tar", False), ("a/b:1", False)],
)
def test_paths_are_told_from_names(text: str, path: bool) -> None:
    assert load_image.is_path(text) is path
