"""Digests and the manifest of a snapshot's folder."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SnapshotDamaged, SnapshotNewer
from holdfast.snapshots import files, manifest
from holdfast.snapshots.manifest import Manifest, StoredFile


def make(folder: Path, **changes: Any) -> Manifest:
    (folder / "images").mkdir()
    (folder / "images" / "pages-1.img").write_bytes(b"memory" * 1000)
    (folder / "images" / "empty.img").touch()
    (folder / "images" / "dump.log").write_text("how it went")
    kept = Manifest(
        id="00112233aabb",
        kind="live",
        label="before",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        session="aabbccddeeff",
        session_name="work",
        generation=0,
        parent=None,
        image="sha256:0",
        options={},
        processes=None,
        files=files.describe(folder),
    )
    manifest.write(folder, kept.model_copy(update=changes))
    return kept


def test_every_file_is_described(tmp_path: Path) -> None:
    """By name, size and digest; parts that only explain the capture are dropped."""
    kept = make(tmp_path)

    assert [(f.name, f.bytes) for f in kept.files] == [("images/empty.img", 0), ("images/pages-1.img", 6000)]
    assert not (tmp_path / "images" / "dump.log").exists()


def test_a_manifest_reads_as_it_was_written(tmp_path: Path) -> None:
    """Nothing is lost on the way to the disk and back."""
    assert make(tmp_path) == manifest.read(tmp_path)


def test_intact_files_pass(tmp_path: Path) -> None:
    """No error means every digest matches."""
    files.verify(tmp_path, make(tmp_path))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flip, "does not match its digest"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "5999 bytes instead of 6000"),
        (lambda path: path.unlink(), "cannot be read"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Any, said: str) -> None:
    """One changed bit, one missing byte, one missing file: refused, and which file it is."""
    kept = make(tmp_path)
    damage(tmp_path / "images" / "pages-1.img")

    with pytest.raises(SnapshotDamaged, match=rf"snapshot before: images/pages-1\.img .*{said}"):
        files.verify(tmp_path, kept)


def test_a_file_of_the_right_size_passes_where_its_reader_compares(tmp_path: Path) -> None:
    """Another size, or no file, is a fault even then."""
    path = tmp_path / "pages"
    entry = StoredFile(name="pages", bytes=5, blake3="0" * 64)
    assert files.fault(path, entry, compare=False) is not None
    path.write_bytes(b"hello")
    assert files.fault(path, entry, compare=False) is None
    assert files.fault(path, entry) == "does not match its digest"
    path.write_bytes(b"hell")
    assert files.fault(path, entry, compare=False) == "has 4 bytes instead of 5"


def test_a_missing_manifest_is_damage(tmp_path: Path) -> None:
    """A folder without it is not a snapshot."""
    with pytest.raises(SnapshotDamaged, match="manifest cannot be read"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "id": 5}'])
def test_a_broken_manifest_is_damage(tmp_path: Path, text: str) -> None:
    """A manifest without the agreed form is not used in part."""
    (tmp_path / "manifest.json").write_text(text)

    with pytest.raises(SnapshotDamaged, match="not valid"):
        manifest.read(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """This version cannot know what a later one meant."""
    make(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 4'))

    with pytest.raises(SnapshotNewer, match="form 4; this one reads 3"):
        manifest.read(tmp_path)


def test_additions_are_waited_for_like_the_files(tmp_path: Path) -> None:
    """A snapshot is not on the disk before the engine's part is; an error there is one of the snapshot."""
    make(tmp_path)
    done: list[str] = []

    def works() -> None:
        time.sleep(0.05)
        done.append("engine")

    def fails() -> None:
        raise OSError(28, "full")

    amounts: list[tuple[int, int]] = []
    with closing(files.Ahead(tmp_path, "images", {})) as ahead:
        ahead.watch(lambda read, total: amounts.append((read, total)))
        size = sum(path.stat().st_size for path in (tmp_path / "images").iterdir())
        assert amounts
        assert all(read <= total == size for read, total in amounts)
        ahead.add(works)
        assert ahead.finish() == {"images/empty.img", "images/pages-1.img"}
        assert done == ["engine"]
        ahead.add(fails)
        with pytest.raises(OSError, match="full"):
            ahead.finish()
