"""Pages kept once: packed content comes back unchanged, and only new pages cost room."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.snapshots.chunks import pack_upkeep, packing, recipe
from holdfast.snapshots.chunks.chunks import Chunks, PacksBusy, Unpacking
from holdfast.snapshots.chunks.packing import PackedFiles
from holdfast.snapshots.chunks.packs import PAGE
from holdfast.snapshots.chunks.recipe import Recipe, RecipeDamaged

MIB = 1 << 20


class Home:
    """A home with snapshots of one file each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.snapshots = root / "snapshots"
        self.kept: dict[str, bytes] = {}

    def keep(self, name: str, data: bytes, parent: str = "") -> PackedFiles:
        folder = self.snapshots / name
        folder.mkdir(parents=True)
        (folder / "memory").write_bytes(data)
        with Chunks(self.root) as chunks:
            similar = recipe.guide(self.snapshots / parent, parent) if parent else None
            done = packing.pack(chunks, folder, name, ["memory"], parent=similar)
        (folder / "memory").unlink()
        self.kept[name] = data
        return done

    def recipe(self, name: str) -> Recipe:
        found = recipe.read(self.snapshots / name, name)
        assert found is not None
        return found

    def back(self, name: str) -> bytes:
        path = self.snapshots / name / "again"
        with Chunks(self.root) as chunks:
            Unpacking(chunks).write(self.recipe(name).files["memory"], path)
        data = path.read_bytes()
        path.unlink()
        return data

    def remove(self, name: str) -> None:
        shutil.rmtree(self.snapshots / name)
        del self.kept[name]

    def sweep(self, thin: float = 0.5) -> pack_upkeep.Swept:
        with Chunks(self.root) as chunks, chunks.changing():
            return pack_upkeep.sweep(chunks, self.snapshots.iterdir(), thin)[0]

    def packs(self) -> list[Path]:
        return sorted((self.root / "chunks" / "packs").glob("*"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def rng() -> random.Random:
    return random.Random(4)


def changed(data: bytes, pages: list[int]) -> bytes:
    made = bytearray(data)
    for page in pages:
        made[page * PAGE + page % PAGE] ^= 255
    return bytes(made)


@pytest.mark.parametrize("size", [0, 1, PAGE - 1, PAGE, PAGE + 1, 16 * PAGE, 300 * PAGE + 5])
def test_a_file_of_any_size_comes_back(home: Home, rng: random.Random, size: int) -> None:
    """Also an empty one, and one that ends within a page."""
    data = rng.randbytes(size)
    home.keep("a", data)

    assert home.back("a") == data


def test_scattered_changes_cost_their_pages(home: Home, rng: random.Random) -> None:
    """One byte in one of a hundred pages: little more than one of a hundred pages is written."""
    data = rng.randbytes(8 * MIB)
    home.keep("a", data)
    after = changed(data, rng.sample(range(len(data) // PAGE), len(data) // PAGE // 100))
    done = home.keep("b", after)

    assert 7.8 * MIB < done.shared < 8.2 * MIB
    assert done.written < 0.02 * done.raw
    assert home.back("b") == after


def test_pages_that_moved_are_found_again(home: Home, rng: random.Random) -> None:
    """Something new before it does not make the rest new."""
    data = rng.randbytes(4 * MIB)
    home.keep("a", data)
    done = home.keep("b", rng.randbytes(3 * PAGE) + data)

    assert done.written < 0.02 * done.raw


def test_unchanged_memory_costs_a_recipe(home: Home, rng: random.Random) -> None:
    """A second snapshot of the same memory writes no pack."""
    data = rng.randbytes(2 * MIB)
    home.keep("a", data)
    packs = home.packs()
    home.keep("b", data)

    assert home.packs() == packs


def test_zeros_cost_nothing_and_come_back_as_holes(home: Home) -> None:
    """Neither in the packs nor, made again, on the disk."""
    done = home.keep("a", bytes(64 * MIB))
    path = home.snapshots / "a" / "again"
    with Chunks(home.root) as chunks:
        Unpacking(chunks).write(home.recipe("a").files["memory"], path)

    assert done.written < 500
    assert path.stat().st_size == 64 * MIB
    assert path.stat().st_blocks == 0


def test_text_is_compressed(home: Home) -> None:
    """Text that is not random takes less than its length."""
    text = b"".join(b"line %d of a log that says much the same\n" % number for number in range(100_000))

    assert home.keep("a", text).written < len(text) / 4


def test_without_its_index_everything_is_there_and_found(home: Home, rng: random.Random) -> None:
    """The index is made again from the packs, and so is one that is not valid."""
    data = rng.randbytes(MIB)
    home.keep("a", data)
    index = home.root / "chunks" / "index"
    index.unlink()
    assert home.back("a") == data
    assert home.keep("b", data).written < 1000
    index.write_bytes(b"nonsense" * 1000)
    assert home.back("a") == data
    assert home.keep("c", data).written < 1000


def test_an_index_that_lies_costs_space_only(home: Home, rng: random.Random) -> None:
    """Each page it points to is compared before it is taken for the same."""
    first, second = rng.randbytes(MIB), rng.randbytes(MIB)
    home.keep("a", first)
    index = home.root / "chunks" / "index"
    data = bytearray(index.read_bytes())
    for at in range(64, len(data), 16):
        data[at + 8] ^= 1  # the number of the page
    index.write_bytes(data)
    home.keep("b", second)
    home.keep("c", first)

    assert home.back("b") == second
    assert home.back("c") == first


def test_the_index_grows(home: Home, rng: random.Random) -> None:
    """More pages than it had room for are all found again."""
    data = rng.randbytes(48 * MIB)
    home.keep("a", data)

    assert home.keep("b", data).written < 1000
    assert (home.root / "chunks" / "index").stat().st_size > 64 + 16 * (1 << 14)


def test_a_recipe_is_bound_to_its_snapshot(home: Home, rng: random.Random) -> None:
    """Two that were exchanged are detected, and also one with a changed bit."""
    home.keep("a", rng.randbytes(PAGE))
    home.keep("b", rng.randbytes(PAGE))
    shutil.copy(home.snapshots / "a" / "recipe", home.snapshots / "b" / "recipe")
    with pytest.raises(RecipeDamaged, match="belongs to a"):
        recipe.read(home.snapshots / "b", "b")

    path = home.snapshots / "a" / "recipe"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecipeDamaged, match="damaged"):
        recipe.read(home.snapshots / "a", "a")


@pytest.mark.parametrize(
    "parts",
    [
        [0, 0, -1, 0, 0, 3], [0, -1, 2], [-1, 0, 2], [9, 0, 2], [0, 65535, 2], [0, 0, 2.0],
        [0, 0, True, 0, 1, 1],
        [0, 0, 0, 0, 0, 2], [0, 0], [0, 0, 1], [0, 0, 3], "000", None, [0, "0", 2],
    ],
    ids=str,
)  # fmt: skip
def test_places_that_no_pack_has_are_refused(tmp_path: Path, parts: Any) -> None:
    """A recipe is intact by its own digest, and nevertheless not believed."""
    fields = {"snapshot": "a", "packs": ["00ff", ""], "files": {"memory": [8192, parts]}}
    (tmp_path / "recipe").write_bytes(recipe._packed(fields))
    with pytest.raises(RecipeDamaged, match="not valid"):
        recipe.read(tmp_path, "a")


@pytest.mark.parametrize("pack", ["../../etc", "a/b", "A0", "0" * 65, 5, None, "00\n"], ids=repr)
def test_a_pack_is_never_named_by_a_path(tmp_path: Path, pack: Any) -> None:
    for file in ([8192, [0, 0, 2]], [-1, []]):
        fields = {"snapshot": "a", "packs": [pack if file[0] else "00ff"], "files": {"memory": file}}
        (tmp_path / "recipe").write_bytes(recipe._packed(fields))
        with pytest.raises(RecipeDamaged, match="not valid"):
            recipe.read(tmp_path, "a")


def test_a_recipe_is_passed_on_to_a_snapshot_of_the_same(home: Home, rng: random.Random) -> None:
    """It tells of the same pages under the new name; a wrong or a damaged one is not passed on."""
    data = rng.randbytes(3 * PAGE)
    home.keep("a", data)
    folder = home.snapshots / "b"
    folder.mkdir()
    assert recipe.pass_on(home.snapshots / "a", "a", folder, "b") == {"memory"}
    assert home.back("b") == data

    empty = home.snapshots / "empty"
    empty.mkdir()
    assert recipe.pass_on(empty, "empty", folder, "c") is None
    with pytest.raises(RecipeDamaged, match="belongs to a"):
        recipe.pass_on(home.snapshots / "a", "b", folder, "c")
    assert home.back("b") == data


def test_sweeping_removes_unneeded_pages(home: Home, rng: random.Random) -> None:
    """A removed snapshot's pages go; pages that others need stay."""
    data = rng.randbytes(4 * MIB)
    home.keep("a", data)
    half = data[: 2 * MIB] + rng.randbytes(2 * MIB)
    home.keep("b", half)
    home.remove("a")
    with Chunks(home.root) as chunks:
        wasted = pack_upkeep.waste(chunks, home.snapshots.iterdir(), 0.9)
    assert 1.9 * MIB < wasted < 2.1 * MIB
    before = sum(path.stat().st_size for path in home.packs())
    swept = home.sweep(thin=0.9)

    assert swept.thinned == 1
    assert sum(path.stat().st_size for path in home.packs()) < before - 1.9 * MIB
    assert home.back("b") == half
    home.remove("b")
    assert home.sweep().removed == 2
    assert home.packs() == []


def test_nothing_is_swept_while_a_recipe_cannot_be_read(home: Home, rng: random.Random) -> None:
    """Its needs are unknown, so everything stays."""
    home.keep("a", rng.randbytes(MIB))
    home.keep("b", rng.randbytes(MIB))
    home.remove("a")
    (home.snapshots / "b" / "recipe").write_bytes(b"")
    packs = home.packs()
    with pytest.raises(RecipeDamaged):
        home.sweep()

    assert home.packs() == packs


def test_each_page_counts_for_the_oldest_that_needs_it(home: Home, rng: random.Random) -> None:
    """The sum over the snapshots equals the space of the packs; the rest is shared."""
    data = rng.randbytes(2 * MIB)
    home.keep("a", data)
    home.keep("b", changed(data, [0, 1, 2]))
    with Chunks(home.root) as chunks:
        accounts = pack_upkeep.mark(chunks, home.snapshots.iterdir()).accounts
    packs = sum(path.stat().st_size for path in home.packs())

    assert abs(accounts["a"].own + accounts["b"].own - packs) < 100
    assert accounts["b"].own < 16_000
    assert accounts["b"].shared > 2_000_000


def test_a_writer_waits_for_the_other(home: Home, rng: random.Random) -> None:
    """Several pack concurrently without losing anything; a caller that will not wait gets an error."""
    parts = {f"s{number}": rng.randbytes(MIB) for number in range(4)}
    threads = [threading.Thread(target=home.keep, args=item) for item in parts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {name: home.back(name) for name in parts} == parts
    with Chunks(home.root) as one, Chunks(home.root) as other, one.changing(), pytest.raises(PacksBusy):
        other.changing(0).__enter__()


@pytest.fixture
def flip() -> Callable[[Path, int], None]:
    def act(path: Path, at: int) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return act


@pytest.mark.parametrize("kind", ["random", "text"])
def test_a_flipped_bit_is_found_in_its_page(
    home: Home, rng: random.Random, flip: Callable[[Path, int], None], kind: str
) -> None:
    """Other snapshots in the same store are not said to be hurt."""
    data = rng.randbytes(MIB) if kind == "random" else b"".join(b"%d;" % number for number in range(300_000))
    home.keep("a", data)
    pack = home.packs()[0]
    home.keep("b", rng.randbytes(MIB))
    flip(pack, 1000)
    with Chunks(home.root) as chunks:
        found = pack_upkeep.check_packs(chunks)

        assert "damaged" in (found.damage(chunks, home.recipe("a")) or "")
        assert found.damage(chunks, home.recipe("b")) is None


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_short_or_missing_pack_is_found(home: Home, rng: random.Random, how: str) -> None:
    """All that need it are hurt, no others."""
    home.keep("a", rng.randbytes(MIB))
    pack = home.packs()[0]
    home.keep("b", rng.randbytes(MIB))
    if how == "cut":
        os.truncate(pack, pack.stat().st_size // 2)
    else:
        pack.unlink()
    with Chunks(home.root) as chunks:
        found = pack_upkeep.check_packs(chunks)

        assert found.damage(chunks, home.recipe("a"))
        assert found.damage(chunks, home.recipe("b")) is None
    data = home.kept["a"]
    home.keep("c", data)
    assert home.back("c") == data


@pytest.mark.parametrize("seed", range(6))
def test_any_history_keeps_every_snapshot(home: Home, seed: int) -> None:
    """Snapshots made of one another, removed and swept in any order, come back as they were."""
    rng = random.Random(seed)
    pool = rng.randbytes(64 * PAGE) + bytes(40 * PAGE) + b"text " * 40_000
    for step in range(24):
        act = rng.random()
        if act < 0.55 or not home.kept:
            source = rng.choice([*home.kept.values(), pool])
            made = bytearray(source)
            for _ in range(rng.randrange(6)):
                at = rng.randrange(len(made) + 1)
                match rng.randrange(4):
                    case 0:
                        made[at : at + 50] = rng.randbytes(50)
                    case 1:
                        at -= at % PAGE
                        made[at:at] = rng.randbytes(PAGE * rng.randrange(20))
                    case 2:
                        del made[at : at + rng.randrange(30_000)]
                    case _:
                        made[at : at + 9000] = bytes(9000)
            home.keep(f"s{step}", bytes(made), rng.choice(["", *home.kept]))
        elif act < 0.8:
            home.remove(rng.choice(list(home.kept)))
        else:
            home.sweep(rng.choice([0.2, 0.5, 1.0]))
        for name in home.kept:
            assert home.back(name) == home.kept[name], (step, name)
