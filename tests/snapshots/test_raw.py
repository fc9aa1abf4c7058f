"""The plain images of a snapshot: made again when missing or changed, evicted when too many."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.errors import SnapshotDamaged
from holdfast.snapshots import files, manifest, raw, raw_cache, storage
from holdfast.snapshots.manifest import Manifest

Make = Callable[[str], Manifest]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def make(home: Home) -> Make:
    """Makes a packed snapshot with two images of a quarter of a mebibyte in all."""

    def act(name: str) -> Manifest:
        folder = home.snapshots / name
        (folder / "images").mkdir(parents=True)
        (folder / "images" / "pages-1.img").write_bytes(os.urandom(250_000))
        (folder / "images" / "core-1.img").write_bytes(b"core" * 100)
        (folder / "baseline").write_bytes(b"not packed")
        entries = files.describe(folder)
        kept = Manifest(
            id=name,
            kind="live",
            label=None,
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            session="aabbccddeeff",
            session_name="work",
            generation=0,
            parent=None,
            image="sha256:0",
            options={},
            processes=None,
            files=entries,
        )
        manifest.write(folder, kept)
        storage.keep(folder, entries)
        amounts: list[tuple[int, int]] = []
        packed = storage.pack(home, folder, name, entries, None, lambda *amount: amounts.append(amount))
        assert packed is not None
        assert amounts == sorted(amounts)
        assert amounts[-1] == (packed.raw, packed.raw)
        return kept

    return act


def ready(home: Home, kept: Manifest) -> bool:
    raw.prepare(home.root, home.snapshots / kept.id, kept)
    files.verify(home.snapshots / kept.id, kept)
    names = {path.name for path in (home.snapshots / kept.id / "images").iterdir()}
    return names == {"pages-1.img", "core-1.img"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda images: shutil.rmtree(images),
        lambda images: (images / "core-1.img").unlink(),
        lambda images: os.truncate(images / "pages-1.img", 5000),
        lambda images: (images / "pages-1.img").write_bytes(bytes(250_000)),
    ],
    ids=["all gone", "one gone", "short", "changed"],
)
def test_missing_or_changed_files_are_rebuilt(
    home: Home, make: Make, damage: Callable[[Path], object]
) -> None:
    """From the packs, and compared with the manifest."""
    kept = make("00112233aabb")
    damage(home.snapshots / kept.id / "images")

    assert ready(home, kept)


def test_unrecoverable_files_are_damage(home: Home, make: Make) -> None:
    """A changed file next to the packs, changed images without a recipe, images whose pack is missing."""
    kept = make("00112233aabb")
    folder = home.snapshots / kept.id
    (folder / "baseline").write_bytes(b"other data")
    with pytest.raises(SnapshotDamaged, match="baseline does not match its digest"):
        raw.prepare(home.root, folder, kept)
    (folder / "baseline").write_bytes(b"not packed")

    shutil.rmtree(folder / "images")
    for pack in (home.root / "chunks" / "packs").iterdir():
        pack.unlink()
    with pytest.raises(SnapshotDamaged, match=r"cannot be unpacked: pack .* is missing"):
        raw.prepare(home.root, folder, kept)
    (folder / "recipe").unlink()
    with pytest.raises(SnapshotDamaged, match="cannot be read"):
        raw.prepare(home.root, folder, kept)


def test_the_oldest_give_way(home: Home, make: Make) -> None:
    """Until the rest is within the limit; one that was used lately is not the oldest."""
    made = [make(f"00000000000{number}") for number in range(3)]
    for age, kept in enumerate(made):
        os.utime(home.snapshots / kept.id / "images", (1000 + age, 1000 + age))
    assert ready(home, made[0])
    raw_cache.evict(home.snapshots, 600_000)

    assert [(home.snapshots / kept.id / "images").exists() for kept in made] == [True, False, True]
    assert all(ready(home, kept) for kept in made)


def test_snapshots_in_use_and_last_ones_stay(home: Home, make: Make) -> None:
    """Images that a restore reads, and images that are not in a pack."""
    used, alone, other = make("00000000000a"), make("00000000000b"), make("00000000000c")
    (home.snapshots / alone.id / "recipe").unlink()
    with raw_cache.held(home.snapshots / used.id):
        raw_cache.evict(home.snapshots, 0)

    there = [(home.snapshots / kept.id / "images").exists() for kept in (used, alone, other)]
    assert there == [True, True, False]


@pytest.mark.parametrize(
    ("given", "meant"), [("", 2 << 30), ("0", 0), ("512m", 512 << 20), ("8GiB", 8 << 30), ("much", 2 << 30)]
)
def test_the_limit_can_be_chosen(monkeypatch: pytest.MonkeyPatch, given: str, meant: int) -> None:
    """In bytes, or with a unit; a text that is not a size is ignored."""
    monkeypatch.setenv(raw_cache.VARIABLE, given)

    assert raw_cache.limit() == meant
