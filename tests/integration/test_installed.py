"""Holdfast installed from its release files, by an ordinary user."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.machines import installed, wheel

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.images import build

pytestmark = pytest.mark.thorough

_MADE_OF = """
import json
import holdfast
from holdfast.images import build
images = [build.reference(kind) for kind in build.KINDS]
print(json.dumps({"package": holdfast.__file__, "images": images}))
"""
_PACKED = """
import time
from holdfast import Holdfast
deadline = time.monotonic() + 200
with Holdfast() as hf:
    while not (packed := hf.snapshot("midway").row.details["storage"]["packed"]):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    recipe = hf.home.snapshots / hf.snapshot("midway").id / "recipe"
    print(packed, recipe.stat().st_uid)
"""
"""Waits for the user's own process that packs in the background."""


@pytest.fixture
def images() -> Iterator[Callable[[], set[str]]]:
    """Return the tags of our images in the engine."""
    engine = Engine.connect()
    yield lambda: {image.tag for image in build.list_images(engine.images)}
    engine.close()


@pytest.fixture
def place(remains: Callable[[Home], list[str]]) -> Iterator[installed.Place]:
    with installed.Place() as made:
        yield made
        made.clear()
        left = remains(Home(made.state))
    assert left == []


@pytest.mark.timeout(600)
def test_wheel_and_source_archive_work_for_an_ordinary_user(
    place: installed.Place, images: Callable[[], set[str]], tmp_path: Path
) -> None:
    """A live snapshot of one is forked and restored by the other; both use the images of the checkout."""
    source = tmp_path / "source"
    wheel.copy_source(source)
    archive = wheel.build_archive(source, tmp_path / "archive")
    ours = place.install(wheel.build(source, tmp_path / "wheel"), "from-wheel")
    theirs = place.install(wheel.build(archive, tmp_path / "again"), "from-archive")

    for programs in (ours, theirs):
        made_of = json.loads(place.use(programs, "python", "-c", _MADE_OF))
        assert Path(made_of["package"]).is_relative_to(programs.parent)
        assert made_of["images"] == [build.reference(kind) for kind in build.KINDS]
    before = images()

    place.holdfast(ours, "new", "--name", "work")
    place.use(ours, "holdfast", "exec", "work", "kept=here; sleep 1000 & echo $! > pid")
    place.holdfast(ours, "snapshot", "work", "--label", "midway")
    assert place.use(ours, "python", "-c", _PACKED).split() == ["True", str(installed.USER)]
    place.holdfast(theirs, "fork", "midway", "--name", "copy")
    place.holdfast(theirs, "rm", "work")
    place.holdfast(theirs, "restore", "midway", "--name", "again")

    # The rest that a user does who is not root, with a umask of 077; `long/test_tool_installs` has bundles.
    place.use(ours, "holdfast", "cell", "again", "x = 41")
    place.holdfast(ours, "snapshot", "again", "--label", "later")
    place.use(ours, "holdfast", "cell", "again", "x = 0")
    place.holdfast(ours, "rewind", "again", "later", "--discard")
    place.holdfast(ours, "suspend", "again")
    place.holdfast(ours, "resume", "again")
    assert place.use(ours, "holdfast", "cell", "again", "x + 1") == "42\n"
    place.holdfast(ours, "snapshot", "again", "--kind", "filesystem", "--label", "files")
    place.holdfast(ours, "gc")

    for programs, name in ((theirs, "copy"), (ours, "again")):
        said = place.use(programs, "holdfast", "exec", name, "echo $kept; kill -0 $(cat pid) && jobs -r")
        assert said.splitlines()[0] == "here"
        assert "sleep 1000" in said
    current = {build.reference(kind) for kind in build.KINDS}
    assert images() - before <= current, "images were built of something else than the checkout"
