"""Layers of one container that become one when an image leaves; `overlay_model` compares real overlays."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.engine import Engine
from holdfast.errors import EngineError
from holdfast.snapshots.bundle import image_layers, names_below
from holdfast.snapshots.bundle.image_layers import Hashed, ImageFacts
from holdfast.snapshots.bundle.image_source import MadeImage
from holdfast.snapshots.bundle.names_below import Name
from holdfast.snapshots.bundle.squashed_layers import LeavingImage, SquashedLayer
from holdfast.snapshots.layer import image


def archive(*names: str, **links: str) -> bytes:
    """Return a layer: names that end in `/` are folders; the content of a file follows its name and `=`."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as made:
        for each in names:
            name, _, content = each.partition("=")
            member = tarfile.TarInfo(name.rstrip("/"))
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.size = len(content)
            made.addfile(member, io.BytesIO(content.encode()))
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.LNKTYPE, target
            made.addfile(member)
    return data.getvalue()


def squashed(folder: Path, *layers: bytes, below: Sequence[str] = ()) -> dict[str, str]:
    """Return the names of layers, lowest first, as one: with contents, the target of a link after `>`."""
    places = []
    for number, layer in enumerate(layers):
        (folder / str(number)).write_bytes(layer)
        places.append(folder / str(number))
    data = b"".join(SquashedLayer(places[::-1], lambda names: names & {*below}).read())
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as made:
        for member in made:
            content = made.extractfile(member) if member.isreg() else None
            found[member.name] = content.read().decode() if content else f">{member.linkname}"
    return found


def test_removed_and_overwritten_files_do_not_leave(tmp_path: Path) -> None:
    """Nor the names of files that the image below does not have."""
    lowest = archive("a/", "a/gone=old", "a/same=1", "over=old", "theirs=old", "f/", "f/in=old")
    found = squashed(
        tmp_path, lowest, archive("a/", "a/.wh.gone", "over=new", ".wh.theirs", "f=file"), below=["theirs"]
    )
    assert found == {"a": ">", "a/same": "1", "over": "new", ".wh.theirs": "", "f": "file"}


def test_a_folder_hides_entries_that_any_of_its_layers_hid(tmp_path: Path) -> None:
    """A deletion, a file and a hiding folder below it hide the image's names in it."""
    for lower in (archive(".wh.d"), archive("d=file"), archive("d/", "d/.wh..wh..opq", "d/x=1")):
        found = squashed(tmp_path, lower, archive("d/", "d/new=1"), below=["d"])
        assert list(found)[:2] == ["d", "d/.wh..wh..opq"]
        assert found["d/new"] == "1"
    assert found["d/x"] == "1"


def test_a_link_to_a_name_that_is_hidden_becomes_the_file(tmp_path: Path) -> None:
    found = squashed(tmp_path, archive("a=content", b="a", c="a"), archive("a=other"))
    assert found == {"a": "other", "b": "content", "c": ">b"}


def test_names_below_equal_an_overlays() -> None:
    upper = [(".wh.gone", False), ("d/.wh..wh..opq", False), ("d", True), ("d/x", False), ("file", False)]
    lower = [("gone", False), ("d", True), ("d/old", False), ("e", True), ("e/y", False), ("file/z", False)]
    wanted = ["gone", "d/x", "d/old", "e/y", "e/none", "file/z", "d"]
    layers = [names_below.of_archive(each, wanted) for each in (upper, lower)]
    assert names_below.shown(wanted, layers) == {"d/x", "e/y", "d"}


def test_names_of_a_folder_equal_its_archives(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").symlink_to("nowhere")
    lookup = names_below.of_folder(tmp_path)
    assert [lookup(each) for each in ("d", "d/x", "d/y")] == [Name.FOLDER, Name.FILE, Name.NOTHING]


def test_parts_are_the_writes_of_each_container() -> None:
    """Whatever others write in the label: positions that do not exist are not parts."""

    def parts(text: str, layers: int = 5) -> list[tuple[int, int]]:
        return image.parts({"Labels": {image.WRITTEN_LABEL: text}}, layers)

    alone = [(position, position + 1) for position in range(5)]
    assert parts("2,4") == [(0, 1), (1, 2), (2, 4), (4, 5)]
    for text in ("", "x", "-1", "5", "99999", "9" * 5000):
        assert parts(text) == alone
    config = {"Labels": {image.WRITTEN_LABEL: "1,2,3,4,5,6,7"}}
    made = image.ParentImage("amd64", "linux", config, ("a", "b")).labels(2)
    assert made[image.WRITTEN_LABEL] == "1,2"


class Store:
    """An engine whose folders cannot be read."""

    def __init__(self, *layers: bytes, written: str, base: str) -> None:
        self.layers = {digest_of(each): each for each in layers}
        labels = {image.WRITTEN_LABEL: written, image.BASE_LABEL: base}
        self.facts = ImageFacts("amd64", "linux", {"Labels": labels}, tuple(self.layers))
        self.asked: list[str] = []
        self.engine: Any = self

    def look(self, _engine: Engine, _ref: str) -> ImageFacts:
        return self.facts

    def each(self, _engine: Engine, _ref: str, wanted: Sequence[str], take: Callable[[Hashed], None]) -> None:
        self.asked += wanted
        if wanted:
            take(Hashed(iter([b"no archive"])))
            for data in reversed(self.layers.values()):
                take(Hashed(iter([data])))

    @property
    def images(self) -> Any:
        class Images:
            def layers(self, _ref: str) -> list[Path]:
                return []

        return Images()


def digest_of(data: bytes) -> str:
    layer = Hashed([data])
    b"".join(layer)
    return layer.digest


def test_an_image_leaves_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers below stay as they are. The digest of the new one is remembered, and read to be sent."""
    layers = (archive("theirs=1"), archive("x=secret", "y=1"), archive(".wh.x", ".wh.theirs", "z=1"))
    store = Store(*layers, written="1", base="1")
    monkeypatch.setattr(image_layers, "look", store.look)
    monkeypatch.setattr(image_layers, "each", store.each)
    cache = tmp_path / "cache" / "squashed.json"

    def leaving(name: str) -> LeavingImage:
        (tmp_path / name).mkdir()
        return LeavingImage(MadeImage(store.engine, "x"), tmp_path / name, cache)

    first = leaving("first").facts
    assert first.layers[0] == store.facts.layers[0]
    assert len(first.layers) == 2
    assert image.base_layers(first.config, 2) == 1
    store.asked.clear()
    again = leaving("again")
    assert (again.facts, store.asked) == (first, [])

    sent: dict[str, bytes] = {}

    def take(layer: Hashed) -> None:
        data = b"".join(layer)
        sent[layer.digest] = data

    again.each(again.facts.layers, take)
    assert set(first.layers) <= sent.keys()
    with tarfile.open(fileobj=io.BytesIO(sent[first.layers[1]])) as made:
        assert made.getnames() == [".wh.theirs", "z", "y"]
    cache.write_text(cache.read_text().replace(first.layers[1], store.facts.layers[2]))
    wrong = leaving("wrong")
    with pytest.raises(EngineError, match="changed"):
        wrong.each(wrong.facts.layers, lambda layer: list(layer).clear())
    assert leaving("then").facts == first


def test_layers_on_top_of_sent_ones_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sent layers leave as they did, the new ones as one more; a label says what belongs together.

    Layers that are not the lowest ones of the image, or not of its last container, change nothing.
    """
    layers = (archive("theirs=1"), archive("x=1"), archive(".wh.x", "y=1"), archive("z=1"), archive(".wh.z"))
    store = Store(*layers, written="1", base="1")
    monkeypatch.setattr(image_layers, "look", store.look)
    monkeypatch.setattr(image_layers, "each", store.each)
    ids = store.facts.layers

    def leaving(name: str, count: int, there: Sequence[str] = ()) -> ImageFacts:
        (tmp_path / name).mkdir()
        store.facts = ImageFacts("amd64", "linux", store.facts.config, ids[:count])
        source = MadeImage(store.engine, "x")
        return LeavingImage(source, tmp_path / name, tmp_path / "squashed.json", tuple(there)).facts

    first = leaving("first", 3)
    assert (len(first.layers), image.written_from(first.config)) == (2, [])
    one_more = leaving("one more", 4, ids[:3])
    assert one_more.layers == (*first.layers, ids[3])
    assert image.parts(one_more.config, 3) == [(0, 1), (1, 3)]
    assert image.base_layers(one_more.config, 3) == 1
    two_more = leaving("two more", 5, ids[:3])
    assert (two_more.layers[:2], len(two_more.layers)) == (first.layers, 3)
    assert ids[3] not in two_more.layers
    merged = leaving("merged", 5)
    for name, others in (("other", ids[1:4]), ("whole", ids), ("base", ids[:1]), ("none", ())):
        assert leaving(name, 5, others) == merged
