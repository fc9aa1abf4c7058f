"""Images in files, of both forms: found, checked, and passed on in one."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard

from holdfast.base.home import Home
from holdfast.errors import ImageError
from holdfast.runtime.lifecycle import load_image
from holdfast.runtime.lifecycle.load_image import StoredArchive, StoredFolder

HERE = "linux/amd64"
LAYERS = (b"lower" * 3000, b"upper" * 3000)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def config(architecture: str = "amd64", layers: tuple[bytes, ...] = LAYERS, **more: Any) -> bytes:
    about = {
        "os": "linux",
        "architecture": architecture,
        "rootfs": {"diff_ids": [digest(each) for each in layers]},
    }
    return json.dumps(about | more).encode()


class Layout:
    """An OCI layout that is being made."""

    def __init__(self, folder: Path) -> None:
        self.blobs = folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        self.folder = folder
        self.manifests: list[dict[str, Any]] = []

    def blob(self, data: bytes) -> dict[str, Any]:
        (self.blobs / digest(data)[7:]).write_bytes(data)
        return {"digest": digest(data), "size": len(data)}

    def add(self, about: bytes, pack: Callable[[bytes], bytes] = gzip.compress, **more: Any) -> None:
        manifest = {"config": self.blob(about), "layers": [self.blob(pack(each)) for each in LAYERS]}
        self.manifests.append(self.blob(json.dumps(manifest).encode()) | more)

    def nest(self) -> None:
        """Put what there is into an index of its own, as BuildKit does."""
        index = self.blob(json.dumps({"manifests": self.manifests}).encode())
        self.manifests = [index | {"mediaType": load_image._INDEXES[0]}]

    def write(self) -> StoredFolder:
        (self.folder / "index.json").write_text(json.dumps({"manifests": self.manifests}))
        return StoredFolder(self.folder)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


def saved(files: dict[str, bytes], links: dict[str, str] | None = None) -> StoredArchive:
    """Return the output of `docker save`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            made.addfile(member)
    buffer.seek(0)
    return StoredArchive(buffer)


def passed_on(place: load_image.ImagePlace, scratch: Path) -> dict[str, bytes]:
    stored = load_image.find_image(place, HERE)
    data = b"".join(load_image.archive(place, stored, "holdfast/provided:it-1", scratch))
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        found = {}
        for member in opened:
            file = opened.extractfile(member)
            assert file
            found[member.name] = file.read()
        return found


def check(found: dict[str, bytes], about: bytes) -> None:
    """An engine of any version reads this, under our name alone."""
    name = f"{digest(about)[7:]}.json"
    assert list(found) == ["0/layer.tar", "1/layer.tar", name, "manifest.json"]
    assert (found["0/layer.tar"], found["1/layer.tar"], found[name]) == (*LAYERS, about)
    assert json.loads(found["manifest.json"]) == [
        {"Config": name, "RepoTags": ["holdfast/provided:it-1"], "Layers": ["0/layer.tar", "1/layer.tar"]}
    ]


def test_archives_of_docker_save_are_loaded(tmp_path: Path) -> None:
    """Its names do not matter; a layer that is there twice is a link."""
    manifest = [{"Config": "c.json", "RepoTags": ["debian:13"], "Layers": ["a/layer.tar", "b/layer.tar"]}]
    files = {"manifest.json": json.dumps(manifest).encode(), "c.json": config(), "b/layer.tar": LAYERS[1]}
    place = saved(files | {"x/layer.tar": LAYERS[0]}, {"a/layer.tar": "../x/layer.tar"})
    check(passed_on(place, tmp_path / "scratch"), config())


@pytest.mark.parametrize(
    "pack",
    [bytes, gzip.compress, zstandard.ZstdCompressor().compress, bz2.compress, lzma.compress],
    ids=["plain", "gzip", "zstd", "bzip2", "xz"],
)
def test_an_oci_layout(layout: Layout, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Each compression of its layers is read, and the forwarded layers have the same digests."""
    layout.add(config(), pack)
    check(passed_on(layout.write(), tmp_path / "scratch"), config())


def test_of_several_platforms_that_of_the_engine(layout: Layout, tmp_path: Path) -> None:
    """In an index within the index, next to BuildKit's notes on how the image was made."""
    layout.add(config("arm64"))
    layout.add(config())
    layout.add(config("unknown"), platform={"os": "unknown", "architecture": "unknown"})
    layout.nest()
    check(passed_on(layout.write(), tmp_path / "scratch"), config())


def test_an_image_for_others_is_named(layout: Layout) -> None:
    """The message lists its machines, and this one."""
    for architecture in ("arm64", "s390x"):
        layout.add(config(architecture))
    with pytest.raises(
        ImageError, match=r"^it is for linux/arm64, linux/s390x, and this engine's machine is"
    ):
        load_image.find_image(layout.write(), HERE)


def test_one_of_several_cannot_be_guessed(layout: Layout) -> None:
    """The message has their number."""
    layout.add(config())
    layout.add(config(config={"Env": ["A=b"]}))
    with pytest.raises(ImageError, match="2 images for linux/amd64, and exactly one is needed"):
        load_image.find_image(layout.write(), HERE)
    with pytest.raises(ImageError, match="2 images, and exactly one is needed"):
        load_image.find_image(saved({"manifest.json": b"[{}, {}]"}), HERE)


def test_a_layer_that_was_changed_is_found(layout: Layout, tmp_path: Path) -> None:
    """By its digest; a missing one is named as missing."""
    layout.add(config(), bytes)
    (layout.blobs / digest(LAYERS[0])[7:]).write_bytes(b"other")
    with pytest.raises(ImageError, match="it is damaged: a layer does not have the digest"):
        passed_on(layout.write(), tmp_path / "scratch")
    (layout.blobs / digest(LAYERS[0])[7:]).unlink()
    with pytest.raises(ImageError, match="a layer of it is missing"):
        passed_on(layout.write(), tmp_path / "scratch")


def test_a_document_that_was_changed_is_found(layout: Layout) -> None:
    """By its digest."""
    layout.add(config())
    (layout.blobs / digest(config())[7:]).write_bytes(config("amd64", LAYERS[:1]))
    with pytest.raises(ImageError, match="it is damaged: a part of it does not have the digest"):
        load_image.find_image(layout.write(), HERE)


def test_names_do_not_lead_out_of_the_folder(tmp_path: Path, layout: Layout) -> None:
    """Not by dots, and not by links."""
    (tmp_path / "manifest.json").write_text("[]")
    assert StoredFolder(layout.folder).open("../manifest.json") is None
    (layout.folder / "manifest.json").symlink_to(tmp_path / "manifest.json")
    assert StoredFolder(layout.folder).open("manifest.json") is None


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"index.json": b"[]"},
        {"index.json": b"{"},
        {"index.json": b"[" * 100_000},
        {"index.json": b'{"manifests": 1}'},
        {"index.json": b'{"manifests": [1]}'},
        {"index.json": b'{"manifests": [{"digest": "sha256:../../x"}]}'},
        {"index.json": b'{"manifests": [{"digest": 5}]}'},
        {"index.json": b'{"manifests": [{"digest": "sha256:%s"}]}' % (b"0" * 64)},
        {"manifest.json": b"[]"},
        {"manifest.json": b"[1]"},
        {"manifest.json": b'[{"Config": 1, "Layers": []}]'},
        {"manifest.json": b'[{"Config": "c", "Layers": {}}]'},
        {"manifest.json": b'[{"Config": "c", "Layers": [1]}]'},
        {"manifest.json": b'[{"Config": "c", "Layers": []}]'},
        {"manifest.json": b'[{"Config": "c", "Layers": ["a"]}]', "c": config(layers=())},
        {"manifest.json": b'[{"Config": "c", "Layers": ["a"]}]', "c": b'{"rootfs": {"diff_ids": ["x"]}}'},
        {"manifest.json": b'[{"Config": "c", "Layers": ["a"]}]', "c": b'{"rootfs": 1}'},
        {"manifest.json": b'[{"Config": "c", "Layers": []}]', "c": b"\xff"},
    ],
)
def test_other_forms_are_refused(files: dict[str, bytes]) -> None:
    """An archive without the documents of an image is not one."""
    with pytest.raises(ImageError):
        load_image.find_image(saved(files), HERE)


def test_a_document_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks count as well."""
    monkeypatch.setattr(load_image, "LONGEST", 10)
    with pytest.raises(ImageError, match="longer than 10 bytes"):
        load_image.find_image(saved({"manifest.json": b"[" + b" " * 20 + b"]"}), HERE)


def test_an_index_that_names_itself_ends(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes within indexes are read three deep."""
    index = {"manifests": [{"mediaType": load_image._INDEXES[0], "digest": digest(b"")}]}
    monkeypatch.setattr(load_image, "_blob", lambda *_: json.dumps(index).encode())
    layout.manifests = index["manifests"]
    with pytest.raises(ImageError, match="its index has an unexpected form"):
        load_image.find_image(layout.write(), HERE)


class Images:
    """An engine that keeps the names of the images it received whole."""

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


def saved_load_image(path: Path, about: bytes, layers: tuple[bytes, ...] = LAYERS) -> Path:
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
    path = saved_load_image(tmp_path / "app.tar", config())
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
        (config(layers=()), (), "it does not contain files"),
        (config(), LAYERS[::-1], "it is damaged"),
    ],
)
def test_unusable_images_are_refused_in_one_line(
    context: Any, tmp_path: Path, about: bytes, layers: tuple[bytes, ...], why: str
) -> None:
    """The engine does not have an image of it, and nothing is left in the home."""
    path = saved_load_image(tmp_path / "app.tar", about, layers)
    with pytest.raises(ImageError, match=f"^cannot use image {path}: {why}"):
        load_image.load(context, path)
    assert context.engine.images.names == []
    assert list(context.home.staging.iterdir()) == []


def test_invalid_and_short_files(context: Any, tmp_path: Path) -> None:
    """At any place, compressed or not."""
    path = saved_load_image(tmp_path / "app.tar", config())
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
def test_paths_differ_from_names(text: str, path: bool) -> None:
    """A name of an image never begins like a path."""
    assert load_image.is_path(text) is path
