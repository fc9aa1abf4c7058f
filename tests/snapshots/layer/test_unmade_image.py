"""An image that is made later: the kept parts of its snapshot, its maker, and events in between."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import EngineError, SnapshotDamaged
from holdfast.snapshots.bundle import image_layers
from holdfast.snapshots.bundle.image_layers import Hashed, ImageFacts
from holdfast.snapshots.bundle.image_source import UnmadeLayers
from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.layer import image, unmade_image
from holdfast.snapshots.layer.archive import CopiedFiles, LayerArchive
from holdfast.snapshots.layer.image import ParentImage
from holdfast.snapshots.layer.unmade_image import UnmadeImage

BASE = ParentImage("amd64", "linux", {}, ("sha256:a", "sha256:b"))


class Store:
    """Stands at the place of an engine's images: judges an archive as the engine does."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {"sha256:base": []}
        self.layers: set[str] = {"sha256:a", "sha256:b"}
        self.loads = 0
        self.sent: list[int] = []
        self.synced = 0
        self.fault: Exception | None = None
        self.images = self
        self.layers_of_it: Any = None

    def inspect(self, ref: str) -> dict[str, Any] | None:
        return {"Id": ref, "RepoTags": self.names[ref]} if ref in self.names else None

    def tag(self, ref: str, name: str) -> None:
        for names in self.names.values():
            if name in names:
                names.remove(name)
        self.names[ref].append(name)

    def remove(self, ref: str) -> bool:
        return self.names.pop(ref, None) is not None

    def load(self, pieces: Iterable[bytes], _what: str) -> None:
        self.loads += 1
        data = b"".join(pieces)
        if self.fault is not None:
            raise self.fault
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
        (described,) = json.loads(files["manifest.json"])
        config = files[described["Config"]]
        self.sent.append(sum(name in files for name in described["Layers"]))
        for name, digest in zip(described["Layers"], json.loads(config)["rootfs"]["diff_ids"], strict=True):
            if name in files:
                assert digest == f"sha256:{hashlib.sha256(files[name]).hexdigest()}"
                self.layers.add(digest)
            elif digest not in self.layers:
                raise EngineError(f"cannot load: {digest} is missing")
        self.names.setdefault(image.id_of(config), [])
        self.tag(image.id_of(config), described["RepoTags"][0])

    def make_durable(self) -> None:
        self.synced += 1


@pytest.fixture
def engine() -> Any:
    store = Store()
    return SimpleNamespace(images=store, layers=store)


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    (tmp_path / "snapshots").mkdir()
    return tmp_path / "snapshots"


def kept(snapshots: Path, name: str, text: str, on: Path | None = None) -> tuple[Path, str]:
    """Make a snapshot whose image is to be made, perhaps on top of an earlier one; return folder and
    image."""
    folder = snapshots / name
    folder.mkdir()
    earlier = unmade_image.share(on, folder, whole=False) if on is not None else None
    if earlier is not None:
        earlier = unmade_image.cut(folder, earlier, len(earlier.layers))
    layer = folder / file_entry.FOLDER
    layer.mkdir()
    (layer / file_entry.DATA).write_text(text)
    file_entry.write(layer / file_entry.ENTRIES, [FileEntry("f", file_entry.FILE, size=len(text))])
    archive = LayerArchive(layer)
    for _ in archive.read():
        pass
    below = BASE if earlier is None else ParentImage("amd64", "linux", {}, earlier.layers)
    lower = earlier.lower if earlier is not None else ()
    config = image.config_of(below, {}, archive.digest).decode()
    missing = 1 + (earlier.missing if earlier is not None else 0)
    unmade = UnmadeImage(config, "sha256:base", len(below.layers) + 1 - missing, missing, lower)
    unmade_image.write(folder, unmade, archive.files)
    shutil.rmtree(layer)
    return folder, unmade.id


def ref(folder: Path) -> str:
    return image.ref_of(folder.name)


def test_images_are_made_in_any_order_and_without_earlier_snapshots(engine: Any, snapshots: Path) -> None:
    """The third of a chain has the layers of the first two, which were never made, and are removed."""
    first, one = kept(snapshots, "one", "1")
    second, two = kept(snapshots, "two", "22", first)
    third, three = kept(snapshots, "three", "333", second)
    shutil.rmtree(second)

    unmade_image.obtain(engine, third, ref(third))
    assert engine.images.names == {"sha256:base": [], three: [ref(third)]}
    unmade_image.obtain(engine, first, ref(first))
    unmade_image.obtain(engine, first, ref(first))
    assert (engine.images.names[one], engine.images.loads) == ([ref(first)], 2)
    assert two not in engine.images.names

    assert unmade_image.settle(engine, snapshots) == []
    assert (unmade_image.folders(snapshots), engine.images.synced, engine.images.loads) == ([], 1, 2)
    assert unmade_image.read(third) is None
    engine.images.remove(three)
    unmade_image.obtain(engine, third, ref(third))  # nothing to make it of; the caller notices
    assert three not in engine.images.names


def test_the_engine_gets_each_layer_of_a_chain_once(engine: Any, snapshots: Path) -> None:
    """Whichever snapshot is asked for first; later ones of the chain are settled after earlier ones."""
    one, _ = kept(snapshots, "z", "1")
    two, _ = kept(snapshots, "b", "22", one)
    three, _ = kept(snapshots, "a", "333", two)
    unmade_image.obtain(engine, two, ref(two))
    assert engine.images.sent == [2]
    unmade_image.obtain(engine, three, ref(three))
    assert engine.images.sent == [2, 1]
    four, _ = kept(snapshots, "c", "4444", three)
    five, _ = kept(snapshots, "0", "55555", four)
    assert unmade_image.settle(engine, snapshots) == []
    assert engine.images.sent == [2, 1, 1, 1, 1]
    named = [name for names in engine.images.names.values() for name in names]
    assert sorted(named) == sorted(ref(each) for each in (one, two, three, four, five))


def test_an_earlier_image_that_is_removed_meanwhile_is_not_missed(
    engine: Any, snapshots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All layers are given again."""
    one, lower = kept(snapshots, "one", "1")
    two, upper = kept(snapshots, "two", "22", one)
    unmade_image.obtain(engine, one, ref(one))
    load = engine.images.load

    def removed(pieces: Iterable[bytes], what: str) -> None:
        monkeypatch.setattr(engine.images, "load", load)
        engine.images.remove(lower)
        engine.images.layers -= set(unmade_image.read(two).layers[2:])  # type: ignore[union-attr]
        load(pieces, what)

    monkeypatch.setattr(engine.images, "load", removed)
    unmade_image.obtain(engine, two, ref(two))
    assert engine.images.sent == [1, 1, 2]
    assert engine.images.names[upper] == [ref(two)]


def test_an_image_of_an_earlier_boot_is_not_built_on(
    engine: Any, snapshots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure its files can be empty. A record of an older version knows no earlier image."""
    boot = tmp_path / "boot"
    boot.write_text("first")
    monkeypatch.setattr(unmade_image, "_BOOT", boot)
    one, _ = kept(snapshots, "one", "1")
    two, _ = kept(snapshots, "two", "22", one)
    unmade_image.obtain(engine, one, ref(one))
    boot.write_text("second")
    unmade_image.obtain(engine, two, ref(two))
    assert engine.images.sent == [1, 2]
    three, _ = kept(snapshots, "three", "333", two)
    record = three / unmade_image.FOLDER / "image.json"
    fields = json.loads(record.read_text())
    del fields["lower"], fields["boot"]
    record.write_text(json.dumps(fields))
    unmade_image.obtain(engine, three, ref(three))
    assert engine.images.sent == [1, 2, 3]


def test_an_image_that_others_removed_is_made_again_while_its_copy_is_there(
    engine: Any, snapshots: Path
) -> None:
    """Until the engine has written it to the disk, the copy stays."""
    folder, made = kept(snapshots, "one", "1")
    unmade_image.obtain(engine, folder, ref(folder))
    engine.images.remove(made)
    unmade_image.obtain(engine, folder, ref(folder))
    assert engine.images.names[made] == [ref(folder)]


def test_an_image_from_before_a_power_failure_is_made_again(
    engine: Any, snapshots: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine can have it with empty files; once it is on the disk, there is not a copy any more.

    A snapshot that shares the image knows that too.
    """
    folder, made = kept(snapshots, "one", "1")
    (snapshots / "twin").mkdir()
    twin = snapshots / "twin"
    assert unmade_image.share(folder, twin) == unmade_image.read(folder)
    unmade_image.obtain(engine, folder, ref(folder))
    boot = tmp_path / "boot"
    boot.write_text("another\n")
    monkeypatch.setattr(unmade_image, "_BOOT", boot)

    for _ in range(2):
        unmade_image.obtain(engine, twin, ref(twin))
        assert engine.images.loads == 2
    unmade_image.obtain(engine, folder, ref(folder))
    assert engine.images.loads == 2
    assert engine.images.names[made] == [ref(twin), ref(folder)]


def test_one_of_many_callers_makes_the_image(engine: Any, snapshots: Path) -> None:
    """The others wait, also callers that remove its sources."""
    folder, made = kept(snapshots, "one", "1")
    failed: list[BaseException] = []

    def work(job: Any) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failed.append(error)

    jobs: list[Any] = [lambda: unmade_image.obtain(engine, folder, ref(folder))] * 8
    jobs += [lambda: unmade_image.settle(engine, snapshots)] * 2
    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert (engine.images.loads, engine.images.names[made]) == (1, [ref(folder)])
    assert not unmade_image.folders(snapshots)


@pytest.mark.parametrize("damage", ["content", "entries", "record", "below"])
def test_damage_is_named_and_nothing_is_made(engine: Any, snapshots: Path, damage: str) -> None:
    """A changed copy, a changed list, a record that is cut off, an image below that others removed."""
    folder, made = kept(snapshots, "one", "1")
    place = folder / unmade_image.FOLDER
    if damage == "content":
        (place / "0" / file_entry.DATA).write_text("2")
    elif damage == "entries":
        file_entry.write(place / "0" / file_entry.ENTRIES, [FileEntry("g", file_entry.FILE, size=1)])
    elif damage == "record":
        os.truncate(place / "image.json", 20)
    else:
        engine.images.remove("sha256:base")
        engine.images.layers.clear()
    with pytest.raises(SnapshotDamaged, match=r"^cannot use snapshot one: "):
        unmade_image.obtain(engine, folder, ref(folder))
    assert made not in engine.images.names
    assert unmade_image.settle(engine, snapshots) == []
    assert unmade_image.folders(snapshots) == [folder]


def test_a_failure_of_the_engine_leaves_everything_for_another_time(engine: Any, snapshots: Path) -> None:
    """A full disk of the engine's; one lost unpacking is repeated."""
    _, made = kept(snapshots, "one", "1")
    engine.images.fault = EngineError("cannot make the image: no space left on device")
    assert unmade_image.settle(engine, snapshots) == [str(engine.images.fault)]
    assert (engine.images.loads, engine.images.synced) == (1, 0)
    engine.images.fault = None
    assert unmade_image.settle(engine, snapshots) == []
    assert made in engine.images.names


def test_copies_above_the_chosen_layer_are_not_kept(engine: Any, snapshots: Path) -> None:
    """An image on top of an earlier one that is not the last has only the layers below it."""
    first, _ = kept(snapshots, "one", "1")
    second, _ = kept(snapshots, "two", "22", first)
    shared = snapshots / "shared"
    shared.mkdir()
    whole = unmade_image.share(second, shared, whole=False)
    assert whole is not None
    left = unmade_image.cut(shared, whole, 3)
    assert (left.present, left.missing) == (2, 1)
    assert [path.name for path in (shared / unmade_image.FOLDER).iterdir()] == ["0"]
    none = unmade_image.cut(shared, left, 2)
    assert (none.present, none.missing) == (2, 0)
    assert not list((shared / unmade_image.FOLDER).iterdir())


def test_contents_are_the_layers_own(tmp_path: Path) -> None:
    """Holes are zeros; deleted names, folders, and files that are too large are refused."""
    (tmp_path / file_entry.DATA).write_bytes(b"....ab")
    entries = [
        FileEntry("d", file_entry.DIRECTORY),
        FileEntry("d/f", file_entry.FILE, size=5, offset=4, holes=[[1, 3]]),
        FileEntry("gone", file_entry.WHITEOUT),
        FileEntry("below", file_entry.FILE, size=3),
    ]
    file_entry.write(tmp_path / file_entry.ENTRIES, entries, **{file_entry.LEFT: [3]})
    copied = CopiedFiles(tmp_path)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "f").write_bytes(b"a\0\0\0b")
    assert copied.digest("/d/f", 5) == beneath.digest(plain, "/f", 5)
    with pytest.raises(beneath.FileTooLarge):
        copied.digest("/d/f", 4)
    for path in ("/below", "/other"):
        with pytest.raises(FileNotFoundError):
            copied.digest(path, 5)
    for path in ("/d", "/gone"):
        with pytest.raises(OSError, match="Invalid argument"):
            copied.digest(path, 5)


def test_layers_can_be_read_before_the_image_is_made(
    engine: Any, snapshots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies are read as the engine would get them, also once it has the image; the others by the engine."""
    first, _ = kept(snapshots, "one", "1")
    second, _ = kept(snapshots, "two", "22", first)
    asked: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        image_layers, "each", lambda _engine, ref, wanted, _take: asked.append((ref, list(wanted)))
    )
    scratch = snapshots.parent / "scratch"
    scratch.mkdir()
    unmade = unmade_image.share(second, scratch, whole=False)
    assert unmade is not None
    source = UnmadeLayers(engine, scratch, unmade)
    assert source.facts == ImageFacts("amd64", "linux", source.facts.config, unmade.layers)
    assert source.copied_names() == {"f"}
    unmade_image.obtain(engine, second, ref(second))
    unmade_image.settle(engine, snapshots)
    read: dict[str, bytes] = {}

    def take(layer: Hashed) -> None:
        data = b"".join(layer)
        read[layer.digest] = data

    source.each([unmade.layers[0], *unmade.layers[2:]], take)
    assert asked == [("sha256:base", [unmade.layers[0]])]
    assert list(read) == list(unmade.layers[2:])
    with tarfile.open(fileobj=io.BytesIO(read[unmade.layers[3]])) as archive:
        assert archive.extractfile("f").read() == b"22"  # type: ignore[union-attr]
    (scratch / unmade_image.FOLDER / "1" / file_entry.DATA).write_text("xx")
    with pytest.raises(SnapshotDamaged, match="does not match its digest"):
        source.each(unmade.layers, take)


def test_only_what_is_new_is_written_to_the_disk(snapshots: Path) -> None:
    """Copies that are shared with an earlier snapshot were written with it, their names here were not.

    A chain of many snapshots would otherwise sync more for each of them.
    """
    assert unmade_image.not_on_disk(snapshots) == ([], [])
    one, _ = kept(snapshots, "one", "1")
    two, _ = kept(snapshots, "two", "22", one)
    three, _ = kept(snapshots, "three", "333", two)
    for folder, lower in ((one, 0), (two, 1), (three, 2)):
        paths, names = unmade_image.not_on_disk(folder)
        inside = {folder / unmade_image.FOLDER, *(folder / unmade_image.FOLDER).rglob("*")}
        assert {folder / name for name in names} == inside
        assert {path for path in inside if path.is_dir()} <= {*paths}
        left = [path for path in inside - {*paths} if path.is_file()]
        assert len(left) == 2 * lower
        assert all(path.stat().st_nlink > 1 for path in left)
