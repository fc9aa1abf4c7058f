"""A form of a newer version is refused by that name, and never taken for damage."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forms import samples

from holdfast.errors import BundleNewer, BundleRefused, SnapshotDamaged, SnapshotNewer
from holdfast.runtime.history.drift import baseline
from holdfast.runtime.store import mending, schema
from holdfast.runtime.transfer import journal_export
from holdfast.snapshots import manifest, record
from holdfast.snapshots.bundle import form

WORDS = {
    4: {
        ("sessions", "state"): "creating dead removed running suspended",
        ("snapshots", "state"): "damaged pending ready",
        ("snapshots", "kind"): "filesystem live",
        ("operations", "state"): "done failed intent",
        ("operations", "kind"): "build ci export import move network new remove restore resume retry rewind "
        "snapshot suspend",
    },
    5: {
        ("sessions", "state"): "creating dead removed running suspended",
        ("snapshots", "state"): "damaged pending ready",
        ("snapshots", "kind"): "filesystem live",
        ("operations", "state"): "done failed intent",
        (
            "operations",
            "kind",
        ): "build ci export import move network new pool remove restore resume retry rewind snapshot suspend",
    },
}
"""What columns of the store may hold, by the version of its schema."""
NEWEST = samples.KEPT / str(samples.latest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a snapshot's folder with the newest files that are kept."""
    made = tmp_path / samples.SNAPSHOT
    shutil.copytree(NEWEST, made)
    return made


def _changed(path: Path, change: dict[str, Any]) -> bytes:
    return json.dumps(json.loads(path.read_text()) | change).encode()


Read = Callable[[Path, dict[str, Any]], object]


def _manifest(folder: Path, change: dict[str, Any]) -> object:
    (folder / manifest.FILE).write_bytes(_changed(folder / manifest.FILE, change))
    return manifest.read(folder)


def _record(folder: Path, change: dict[str, Any]) -> object:
    (folder / record.FILE).write_bytes(gzip.compress(_changed(folder / "record.json", change)))
    return record.read(folder)


def _baseline(folder: Path, change: dict[str, Any]) -> object:
    (folder / baseline.FILE).write_bytes(gzip.compress(_changed(folder / "baseline.json", change)))
    return baseline.read(folder)


def test_a_new_word_in_the_store_raises_its_version() -> None:
    """Otherwise the version before would mend the row of a newer one, as if it were damaged."""
    assert {place: " ".join(sorted(words)) for place, words in mending.KNOWN.items()} == WORDS[schema.VERSION]


OF_SNAPSHOTS = [_manifest, _record, _baseline]
NEWEST_FORM: dict[Read, int] = {_manifest: 3, _record: 1, _baseline: 1}


@pytest.mark.parametrize("read", OF_SNAPSHOTS)
@pytest.mark.parametrize("change", [{"format": 4}, {"format": 7, "more": 1}])
def test_parts_of_newer_snapshots_are_named_so(folder: Path, read: Read, change: dict[str, Any]) -> None:
    assert read(folder, {})
    with pytest.raises(
        SnapshotNewer, match=f"form {change['format']}; this one reads {NEWEST_FORM[read]}"
    ) as refused:
        read(folder, change)
    assert str(refused.value).startswith(f"cannot use snapshot {samples.SNAPSHOT}: a newer version")
    assert "upgrade" in refused.value.hint


@pytest.mark.parametrize("read", OF_SNAPSHOTS)
@pytest.mark.parametrize("number", [0, -1, "2", 1.5, 10**30, None, [2]])
def test_numbers_that_no_version_has_are_damage(folder: Path, read: Read, number: Any) -> None:
    with pytest.raises(SnapshotDamaged):
        read(folder, {"format": number})


def test_a_newer_bundle_is_named_so() -> None:
    """Also if only the manifest in it is of a later form."""
    path = NEWEST / samples.CONFIG
    assert form.parse(form.BundleConfig, path.read_bytes(), "config")
    inner = json.loads(path.read_text())["snapshot"]
    for change, forms in (
        ({"format": 2}, "form 2; this one reads 1"),
        ({"snapshot": inner | {"format": 4}}, "form 4; this one reads 3"),
    ):
        with pytest.raises(BundleNewer, match=forms) as refused:
            form.parse(form.BundleConfig, _changed(path, change), "config")
        assert isinstance(refused.value, BundleRefused)
    with pytest.raises(BundleRefused) as other:
        form.parse(form.BundleConfig, _changed(path, {"format": "2"}), "config")
    assert not isinstance(other.value, BundleNewer)


def test_a_newer_journal_is_named_so() -> None:
    lines = (NEWEST / "journal.jsonl").read_bytes().splitlines(keepends=True)
    known = journal_export.read(gzip.compress(b"".join(lines)))
    assert known
    with pytest.raises(BundleNewer, match="form 2"):
        journal_export.read(gzip.compress(b'{"format": 2}\n' + b"".join(lines[1:])))
    # Before the number was written, the first line was an entry.
    assert journal_export.read(gzip.compress(b"".join(lines[1:]))) == known
    assert journal_export.read(gzip.compress(b"[" * 900 + b"\n" + b"".join(lines))) == known
