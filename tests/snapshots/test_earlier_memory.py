"""The snapshot that the next one can build on, and the names and digests of shared files."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.snapshots.test_files import make

from holdfast.errors import SnapshotDamaged
from holdfast.snapshots import earlier_memory, files, manifest
from holdfast.snapshots.bundle import foreign_files
from holdfast.snapshots.checkpointer.record import earlier_names, page_chain, page_ranges
from holdfast.snapshots.checkpointer.record.memory import ImageMemory
from holdfast.snapshots.checkpointer.record.page_chain import IN_PARENT, PAGE, PRESENT
from holdfast.snapshots.earlier_memory import EarlierMemory
from holdfast.snapshots.manifest import StoredFile


def test_only_sessions_that_are_captured_often_are_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable switches it off."""
    now = datetime.now(UTC)
    monkeypatch.delenv(earlier_memory.VARIABLE, raising=False)
    assert earlier_memory.is_wanted(now - timedelta(seconds=earlier_names.RECENT - 60))
    assert not earlier_memory.is_wanted(now - timedelta(seconds=earlier_names.RECENT + 60))
    assert not earlier_memory.is_wanted(None)
    monkeypatch.setenv(earlier_memory.VARIABLE, "0")
    assert not earlier_memory.is_wanted(now)


def test_names_lead_to_the_snapshot_before() -> None:
    """And no further back than eight; a bundle brings no others."""
    assert earlier_names.parted("earlier-2-pages-3.img") == (2, "pages-3.img")
    assert earlier_names.name_before("earlier-2-pages-3.img") == "earlier-1-pages-3.img"
    assert earlier_names.name_before("earlier-1-pagemap-12.img") == "pagemap-12.img"
    assert foreign_files.belongs("images/earlier-8-pages-3.img")
    for name in ("earlier-0-pages-3.img", "earlier-9-pages-3.img", "earlier-1-files.img", "earlier-1-..img"):
        assert not earlier_names.is_earlier(name)
        assert not foreign_files.belongs(f"images/{name}")


def test_sets_of_pages_hold_their_pages() -> None:
    chance = random.Random(3)
    for _ in range(300):
        one, other = ({page for page in range(40) if chance.random() < 0.4} for _ in range(2))
        first, second = _ranges(one), _ranges(other)
        assert page_ranges.common(first, second) == _ranges(one & other)
        assert page_ranges.joined(page_ranges.without(first, second)) == _ranges(one - other)
        assert page_ranges.size(first) == len(one)


def _ranges(pages: set[int]) -> list[tuple[int, int]]:
    return page_ranges.joined((page, page + 1) for page in sorted(pages))


def test_a_snapshot_with_memory_of_earlier_ones_has_the_third_form(tmp_path: Path) -> None:
    """Older versions would not find that memory."""
    make(tmp_path)
    kept = manifest.read(tmp_path)
    shared = StoredFile(name="images/earlier-1-pages-1.img", bytes=1, blake3="0")
    manifest.write(tmp_path, kept.model_copy(update={"files": [*kept.files, shared]}))
    assert manifest.read(tmp_path).format == 3
    manifest.write(tmp_path, kept)
    assert manifest.read(tmp_path).format == 1


def test_shared_layers_keep_their_digest(tmp_path: Path) -> None:
    """It is not read again; a file that the last snapshot lacks is refused."""
    images = tmp_path / "images"
    images.mkdir()
    for name in ("pages-1.img", "earlier-1-pages-1.img", "earlier-2-pages-1.img"):
        (images / name).write_bytes(b"x")
    before = EarlierMemory("a", {"images/pages-1.img": "one", "images/earlier-1-pages-1.img": "two"})
    linked = before.linked(tmp_path)
    assert linked == {"images/earlier-1-pages-1.img": "one", "images/earlier-2-pages-1.img": "two"}
    ahead = files.Ahead(tmp_path, "images", linked)
    try:
        assert ahead.digests() == {**linked, "images/pages-1.img": files.digest(images / "pages-1.img")}
        assert ahead.finish() == {"images/pages-1.img"}
    finally:
        ahead.close()
    with pytest.raises(SnapshotDamaged):
        EarlierMemory("a", {}).linked(tmp_path)


def test_only_a_whole_snapshot_is_built_on(tmp_path: Path) -> None:
    """One whose files are not as noted is not."""
    folder = tmp_path / "0123456789ab"
    folder.mkdir()
    make(folder)
    kept = manifest.read(folder)
    with earlier_memory.held(tmp_path, folder.name) as found:
        assert found.snapshot == kept.id
    image = next(entry.name for entry in kept.files if entry.name.startswith("images/"))
    (folder / image).write_bytes(b"of another size than before")
    for name in (folder.name, "ba9876543210", None):
        with earlier_memory.held(tmp_path, name) as found:
            assert found == EarlierMemory()


def head(pages_id: int) -> Any:
    return SimpleNamespace(pages_id=pages_id)


def test_memory_is_searched_in_the_images_that_have_it(tmp_path: Path) -> None:
    """A page written since hides an earlier snapshot at the same address."""
    old, new = tmp_path / "old", tmp_path / "new"
    word = b"8 bytes."
    old.write_bytes(word.ljust(PAGE, b"\0") * 3)
    new.write_bytes(bytes(PAGE))
    levels = [_entries((0x1000, 1, PRESENT), (0x2000, 1, IN_PARENT)), _entries((0x1000, 3, PRESENT))]
    images = {"pagemap-7": [head(1), *levels[0]], "earlier-1-pagemap-7": [head(2), *levels[1]]}
    chain = [*page_chain.follow(lambda name: images.get(name, []), "pagemap-7")]
    assert [one.file for one in chain] == ["pages-1.img", "earlier-1-pages-2.img"]
    memory = ImageMemory([(new, chain[0].parts), (old, chain[1].parts)])
    found = [address for address, _, _ in memory.find({word}, 8, 8, 0, iter(range(100)))]
    assert found == [0x2000]
    assert memory.has(0x2008)
    assert not memory.has(0x3000)


def _entries(*told: tuple[int, int, int]) -> list[Any]:
    return [
        SimpleNamespace(vaddr=at, nr_pages=count, compat_nr_pages=0, flags=flags) for at, count, flags in told
    ]
