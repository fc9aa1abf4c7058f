"""This version reads the forms of earlier versions, and writes the kept form.

If a test fails after a change of a form: a later version has to read what is in `kept`, so it is the change
that needs another look. If it is meant, and old forms are still read, `python tests/forms/samples.py` keeps
the new one.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.forms import samples

from holdfast.base.home import Home
from holdfast.runtime.history.drift import baseline
from holdfast.runtime.store.entry import parse_line
from holdfast.runtime.store.store import Store
from holdfast.runtime.transfer import journal_export
from holdfast.snapshots import manifest, record
from holdfast.snapshots.bundle import form

PRESENT_NAMES = {"task": "job"}
"""By the name that an earlier version gave a field."""
APART_FROM = 3
"""The first folder with a snapshot of which files are kept beside its image."""
FOLDERS = [samples.KEPT / str(number) for number in range(1, samples.latest() + 1)]


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def kept(request: pytest.FixtureRequest) -> Path:
    """Return a folder of one version."""
    found = request.param
    assert isinstance(found, Path)
    return found


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """Return a snapshot's folder with the same files, compressed as in use."""
    made = tmp_path / samples.SNAPSHOT
    shutil.copytree(kept, made)
    for name in samples.PACKED:
        (made / name).write_bytes(gzip.compress((made / name).with_suffix("").read_bytes()))
    return made


def _all_of(found: BaseModel, text: str | bytes) -> None:
    """Check that every value that was written is read, under its present name."""
    assert _named(found.model_dump_json(exclude_unset=True)) == _named(text)


def _named(text: str | bytes) -> object:
    return json.loads(text, object_hook=lambda row: {PRESENT_NAMES.get(key, key): row[key] for key in row})


def test_written_values_are_kept_unchanged(tmp_path: Path) -> None:
    """A form that changes is kept under a number of its own."""
    samples.write(tmp_path)
    newest = FOLDERS[-1]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        path.name: path.read_text() for path in newest.iterdir()
    }


def test_all_kept_forms_are_small() -> None:
    assert sum(path.stat().st_size for path in samples.KEPT.rglob("*") if path.is_file()) < 100_000


def test_a_manifest_is_read(folder: Path) -> None:
    _all_of(manifest.read(folder), (folder / manifest.FILE).read_text())


def test_a_record_is_read(folder: Path) -> None:
    found = record.read(folder)
    assert found is not None
    _all_of(found, (folder / record.FILE).with_suffix("").read_text())


def test_the_config_of_a_bundle_is_read(folder: Path) -> None:
    data = (folder / samples.CONFIG).read_bytes()
    _all_of(form.parse(form.BundleConfig, data, "config"), data)


def test_an_exported_journal_is_read(folder: Path) -> None:
    """All entries, and all of each."""
    found = journal_export.read((folder / journal_export.FILE).read_bytes())
    assert [one.seq for one in found] == [entry.seq for entry in samples.ENTRIES]
    lines = (folder / journal_export.FILE).with_suffix("").read_bytes().splitlines()
    written = [line for line in lines if "seq" in json.loads(line)]
    assert found == [parse_line(line) for line in written]


def test_a_baseline_is_read(folder: Path) -> None:
    text = (folder / baseline.FILE).with_suffix("").read_text()
    found = baseline.read(folder)
    assert found is not None
    assert found == samples.BASELINE
    assert set(found.table) == {path for path, *_ in json.loads(text)["files"]}


def test_a_database_is_read(kept: Path, tmp_path: Path) -> None:
    """All rows, after the upgrade to the present schema."""
    home = Home(tmp_path / "home").create()
    with closing(sqlite3.connect(home.database)) as db:
        db.executescript((kept / samples.DATABASE).read_text())
    store = Store.open(home.database)

    assert store.sessions() == samples.SESSIONS
    assert store.snapshots() == samples.SNAPSHOTS
    assert store.operations.open() == samples.OPERATIONS
    (entry,) = store.entries.of([samples.SESSION])
    assert (entry.seq, entry.kind, entry.body) == (2, "taken", {"label": "before"})
    assert store.entries.branches()[samples.SESSION].position == 2


def test_kept_forms_have_the_numbers_of_their_versions(folder: Path, kept: Path) -> None:
    """The number is where the present version looks for it, in every form that has one."""
    forms = dict.fromkeys((manifest.FILE, samples.CONFIG, "record.json", "baseline.json"), 1)
    if int(kept.name) >= APART_FROM:
        forms[manifest.FILE] = 2
    found = {name: json.loads((folder / name).read_text()) for name in forms}
    assert {name: one["format"] for name, one in found.items()} == forms
    assert found[samples.CONFIG]["snapshot"]["format"] == forms[manifest.FILE]
    assert manifest.read(folder).has_apart == (forms[manifest.FILE] == 2)
