"""The earlier image as the base of the next one, and images made like a changing overlay's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.snapshots.layer import overlay_model

from holdfast.snapshots.layer import layer_chain
from holdfast.snapshots.layer.image import ExtendedImage
from holdfast.snapshots.layer.layer_chain import LayerChain
from holdfast.snapshots.layer.oci import Blob


class Engine:
    """Takes snapshots of one container; `there` lists the images that have not been removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "written"
        self.there: set[str] = set()
        self.layers: dict[str, tuple[str, ...]] = {}

    def take(
        self,
        name: str,
        *,
        written: int = 10,
        whole: int = 1000,
        most: int = 24,
        container: str = "c",
        is_last: bool = False,
    ) -> str:
        """Return the name of the image that this one is on top of; empty if it has the whole layer."""
        chain = LayerChain(self.folder, container)
        base = chain.choose(lambda each: each.image in self.there, most, is_last=is_last)
        layers = (*(base.layers if base else ("base",)), name)
        index = self.folder.parent / "index.json"
        index.write_text(name)
        if base:
            place = self.folder.parent / "below.json"
            chain.offer(place)
            assert place.read_text() == base.image
            place.unlink()
        chain.take(index)
        chain.add(
            ExtendedImage(name, layers, (Blob("t", name, 1),)),
            written=written if base else whole,
            whole=whole,
            grown=1,
            size=2,
        )
        self.there.add(name)
        self.layers[name] = layers
        return base.image if base else ""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def test_a_thousand_images_are_few_layers_and_few_indexes(engine: Engine) -> None:
    """Each is on top of an earlier one, and no layer is repeated in more than five of another's place."""
    assert engine.take("0") == ""
    for number in range(1, 1000):
        assert engine.take(str(number)) == str(layer_chain.below(number))
    assert max(map(len, engine.layers.values())) <= 1 + 15
    assert len(list(engine.folder.iterdir())) <= 1 + 15


def test_the_last_image_of_a_container_is_on_top_of_the_one_before(engine: Engine) -> None:
    """If it was not the last after all, the images after it form the tree as before."""
    for number in range(8):
        engine.take(str(number))
    assert layer_chain.below(8) == 4
    assert engine.take("8", is_last=True) == "7"
    engine.there.remove("8")
    assert engine.take("8 again", is_last=True) == "7"
    assert engine.take("9") == "8 again"
    assert engine.take("10", is_last=True, most=3) == "0"


def test_removed_layers_are_not_built_on(engine: Engine) -> None:
    """The layers of an image stay while one on top of it is there, and no longer."""
    for number in range(8):
        engine.take(str(number))
    engine.there -= {"4", "0"}
    assert engine.take("8") == "4"  # which 7 has below it
    engine.there -= {"5", "6", "7", "8"}
    assert engine.take("9") == ""
    engine.there.clear()
    assert engine.take("10") == ""


@pytest.mark.parametrize("damage", ["index", "list", "nothing at all"])
def test_damaged_layers_are_not_built_on(engine: Engine, damage: str) -> None:
    engine.take("0")
    if damage == "index":
        (engine.folder / "0.json").write_text("other")
    elif damage == "list":
        (engine.folder / layer_chain.FILE).write_text('{"container": "c", "links": [{}')
    else:
        shutil.rmtree(engine.folder)
    assert engine.take("1") == ""
    assert engine.take("2") == "1"


def test_images_of_other_containers_and_boots_are_not_built_on(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folders differ; after a crash of the machine files can lack their content."""
    engine.take("0")
    assert engine.take("1", container="d") == ""
    assert engine.take("2", container="d") == "1"
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr(layer_chain, "_BOOT", tmp_path / "boot")
    assert engine.take("3", container="d") == ""


def test_an_image_does_not_get_more_layers_than_an_engine_stacks(engine: Engine) -> None:
    for number in range(200):
        engine.take(str(number), most=4)
    assert max(map(len, engine.layers.values())) == 4


def test_images_do_not_keep_files_removed_long_ago(engine: Engine) -> None:
    """At most twice the needed room is used; then one has the whole layer again."""
    large = 1 << 30
    assert engine.take("0", whole=large) == ""
    assert engine.take("1", whole=large // 4, written=10) == "0"
    assert engine.take("2", whole=large // 4) == ""
    assert engine.take("3", whole=large // 4) == "2"


@pytest.mark.parametrize("seed", [7, 14])
def test_every_image_has_the_files_of_its_moment(tmp_path: Path, seed: int) -> None:
    """Random changes to a real overlay, some while it is copied; all that a session can see of its files."""
    more = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    program = [sys.executable, str(overlay_model.__file__), str(tmp_path), str(seed), "40"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        ["unshare", "--mount", *more, *program], env=paths, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, _, layers = map(int, done.stdout.split())
    assert 3 <= layers < overlay_model.MOST
