"""Unchanged memory is found by following the parent's recipe, and nothing is taken on its word."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.snapshots.chunks import packing, recipe
from holdfast.snapshots.chunks.chunks import Chunks, Unpacking
from holdfast.snapshots.chunks.index import PackIndex
from holdfast.snapshots.chunks.pack_upkeep import sweep
from holdfast.snapshots.chunks.packing import PackedFiles, PageCourse
from holdfast.snapshots.chunks.packs import GROUP_BYTES, NOWHERE, PAGE, PageRun, digest
from holdfast.snapshots.chunks.recipe import Recipe, RecipeFile

MIB = 1 << 20


class Counted:
    """Pages that packing hashed and looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups = self.pages = self.lookups = 0
        find = PackIndex.find

        def hashed(data: bytes | memoryview) -> bytes:
            if len(data) == GROUP_BYTES:
                self.groups += 1
            else:
                self.pages += 1
            return digest(data)

        def found(index: PackIndex, name: bytes) -> object:
            self.lookups += 1
            return find(index, name)

        monkeypatch.setattr(packing, "digest", hashed)
        monkeypatch.setattr(PackIndex, "find", found)


def pack(root: Path, name: str, data: bytes, parent: Recipe | None = None) -> tuple[PackedFiles, Recipe]:
    folder = root / "snapshots" / name
    folder.mkdir(parents=True)
    (folder / "memory").write_bytes(data)
    with Chunks(root) as chunks:
        done = packing.pack(chunks, folder, name, ["memory"], parent=parent)
        found = recipe.read(folder, name)
        assert found is not None
        Unpacking(chunks).write(found.files["memory"], folder / "again")
    assert (folder / "again").read_bytes() == data
    return done, found


def touched(rng: random.Random, data: bytes, pages: int) -> bytes:
    made = bytearray(data)
    for page in rng.sample(range(len(data) // PAGE), pages):
        made[page * PAGE : page * PAGE + 8] = rng.randbytes(8)
    return bytes(made)


def test_work_follows_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only pages next to a changed one are hashed individually; only changed ones are looked up."""
    rng = random.Random(7)
    data = rng.randbytes(16 * MIB)
    _, parent = pack(tmp_path, "a", data)
    after = touched(rng, data, 40)
    counted = Counted(monkeypatch)
    done, found = pack(tmp_path, "b", after, parent)

    assert counted.lookups == 40
    assert counted.pages <= 40 * 16
    assert counted.groups == 256
    assert done.written < 60 * PAGE
    counted.pages = counted.lookups = 0
    pack(tmp_path, "c", touched(rng, after, 5), found)

    assert counted.lookups <= 2 * 5 + 5, "the gaps of the second snapshot are followed too"
    assert counted.pages <= 45 * 16


def test_zeros_between_pages_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse heap is as unchanged as a full one."""
    rng = random.Random(8)
    data = b"".join(rng.randbytes(3 * PAGE) + bytes(2 * PAGE) for _ in range(200)) + bytes(100 * PAGE)
    _, parent = pack(tmp_path, "a", data)
    counted = Counted(monkeypatch)
    pack(tmp_path, "b", data, parent)

    assert counted.lookups == 0
    assert counted.pages < 200, "a group is compared by one digest, also across zeros"
    counted.pages = 0
    made = bytearray(data)
    made[PAGE * 250] ^= 1
    made[PAGE * 128 : PAGE * 129] = rng.randbytes(PAGE)  # zeros before
    pack(tmp_path, "c", bytes(made), parent)

    assert counted.lookups <= 20
    assert counted.pages < 250


def test_after_an_insertion_the_course_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moved page costs a few lookups, and new pages one each; also without a parent."""
    rng = random.Random(9)
    data = touched(rng, rng.randbytes(4 * MIB), 30)
    _, parent = pack(tmp_path, "a", data)
    counted = Counted(monkeypatch)
    after = data[: 100 * PAGE] + rng.randbytes(7 * PAGE) + data[100 * PAGE :]
    pack(tmp_path, "b", after, parent)
    assert counted.lookups <= 7 + 1
    counted.lookups = 0
    pack(tmp_path, "c", after)

    assert counted.lookups <= 12


def lying(parent: Recipe, change: Callable[[PageRun], PageRun]) -> Recipe:
    file = parent.files["memory"]
    return replace(parent, files={"memory": RecipeFile(file.bytes, tuple(map(change, file.runs)))})


@pytest.mark.parametrize(
    "change",
    [
        lambda run: replace(run, first=run.first + 16),
        lambda run: replace(run, first=run.first + 1),
        lambda run: replace(run, first=1 << 40),
        lambda run: replace(run, pack="0123456789"),
        lambda run: replace(run, pack="../../outside"),
        lambda run: replace(run, pack=NOWHERE, first=0),
        lambda run: replace(run, count=3),
    ],
    ids=["other group", "other page", "beyond", "no such pack", "path", "zeros", "short"],
)
def test_a_parent_that_lies_costs_time_only(tmp_path: Path, change: Callable[[PageRun], PageRun]) -> None:
    """Whatever it claims about the pages, packed content comes back, and is not stored twice."""
    data = random.Random(10).randbytes(MIB)
    _, parent = pack(tmp_path, "a", data)
    done, _ = pack(tmp_path, "b", data, lying(parent, change))

    assert done.written < 1000


def test_pages_swept_from_under_the_parent_are_stored_again(tmp_path: Path) -> None:
    """The parent was read before a sweep removed it; a page that is no longer there is not relied on."""
    rng = random.Random(11)
    data = rng.randbytes(MIB)
    _, parent = pack(tmp_path, "a", data)
    half = data[: MIB // 2 - PAGE]
    pack(tmp_path, "b", half)
    with Chunks(tmp_path) as chunks, chunks.changing():
        sweep(chunks, [tmp_path / "snapshots" / "b"], 1.0)
    done, _ = pack(tmp_path, "c", data, parent)

    assert done.written > MIB // 2


def test_a_guide_that_is_damaged_missing_or_too_large_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session chooses how many pieces its memory is in, and not how much memory packing takes."""
    rng = random.Random(12)
    pack(tmp_path, "a", b"".join(rng.randbytes(PAGE) + bytes(PAGE) for _ in range(50)))
    folder = tmp_path / "snapshots" / "a"
    assert recipe.guide(folder, "a") == recipe.read(folder, "a")
    assert recipe.guide(folder, "b") is None
    assert recipe.guide(tmp_path, "a") is None
    monkeypatch.setattr(recipe, "GUIDE_BYTES", 300)
    assert recipe.guide(folder, "a") is None
    monkeypatch.undo()
    (folder / recipe.FILE).write_bytes(b"nonsense")

    assert recipe.guide(folder, "a") is None


def place(course: PageCourse) -> tuple[str | None, int, int, bool]:
    return course.pack, course.page, course.left, course.apart


def test_a_course_goes_through_runs_and_comes_back_to_them() -> None:
    """Past zeros and the end of a file, and after a page that was found elsewhere."""
    runs = (PageRun("one", 4, 3), PageRun(NOWHERE, 0, 2), PageRun("two", 0, 1))
    course = PageCourse(Recipe("a", {"memory": RecipeFile(6 * PAGE, runs)}))
    nothing = (None, 0, 0, False)
    assert place(course) == nothing
    course.begin("memory")
    assert place(course) == ("one", 4, 3, False)
    course.advance(4)
    assert place(course) == (NOWHERE, 1, 1, False)
    course.follow("one", 4)
    assert place(course) == ("one", 5, 2, False)
    course.follow("three", 8)
    course.advance_zeros(5)
    assert place(course)[:2] == ("three", 9)
    assert course.apart
    course.follow("two", 0)
    assert place(course) == nothing
    course.begin("other")
    course.advance_zeros(9)
    assert course.pack is None
