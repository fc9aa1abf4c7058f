"""One damaged value spoils its own row, and no other."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import StoreError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.store import mending, peek, schema
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.store import Store
from holdfast.runtime.store.timelines import Branch

BYTES = b"\xff\xfe{"
NUMBER = ["x", BYTES]
DAMAGE: dict[str, list[Any]] = {
    "json": ["{", "5", "[]", "null", BYTES, b"x", 5],
    "text": [BYTES],
    "long": [BYTES],
    "flag": [BYTES],
    "time": ["2026-13-45", "", BYTES, 7],
    "integer": NUMBER,
    "big": NUMBER,
}
CASES = [
    pytest.param(table.name, column.name, value, id=f"{table.name}-{column.name}-{number}")
    for table in (schema.SESSIONS, schema.SNAPSHOTS)
    for column in table.columns.values()
    if column.name != "id"
    for number, value in enumerate(DAMAGE[column.form])
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with two sessions and two snapshots: of each a good one and one that is damaged."""
    home = Home(tmp_path / "home").create()
    store = Store.open(home.database)
    for name in ("good", "bad"):
        row = store.add_session(name, "image", {"memory": 1}, state="running")
        store.update_session(row.id, container_id=f"container-of-{name}")
        taken = store.add_snapshot(row.id, "live", label=f"{name}-s")
        store.update_snapshot(taken.id, state="ready")
        store.operations.begin(OperationKind.NEW, session_id=row.id)
        store.entries.note(row.id, "created", 1.0, actor=None, body={"name": name})
        store.entries.branch(row.id, taken.id, Branch("parent", 3, 1.0))
    return home


def damage(home: Home, table: str, column: str, value: Any, where: str = "rowid = 2") -> None:
    with closing(sqlite3.connect(home.database)) as db, db:
        if isinstance(value, bytes):
            value = sqlite3.Binary(value)
            done = db.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {where}", (value,))
        else:
            done = db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))
        assert done.rowcount == 1


def aside(home: Home) -> list[dict[str, Any]]:
    file = home.root / mending.ASIDE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(("table", "column", "value"), CASES)
def test_a_damaged_value_spoils_its_own_row(home: Home, table: str, column: str, value: Any) -> None:
    before = Store.open(home.database)
    sessions, snapshots = before.sessions(), before.snapshots()
    damage(home, table, column, value)
    store = Store.open(home.database)
    assert store.sessions()[-1 if (table, column) == ("sessions", "created_at") else 0].id == sessions[0].id
    found = {row.id: row for row in store.snapshots()}
    assert found[snapshots[0].id] == snapshots[0]
    assert {row.id for row in store.sessions()} == {row.id for row in sessions}
    assert set(found) == {row.id for row in snapshots}
    assert store.snapshot("good-s") == snapshots[0]
    assert store.session("good") == sessions[0]
    bad = found[snapshots[1].id]
    if table == "snapshots" and column not in mending._HARMLESS:
        assert bad.state == "damaged"
        assert f"({column})" in bad.details.damage
    store.forget_snapshot(bad.id)
    (row,) = (row for row in store.sessions() if row.id == sessions[1].id)
    if table == "sessions" and column in ("options", "details", "image"):
        assert f"({column})" in row.details.trouble(row.container_id)
    store.update_session(row.id, state="removed")
    assert [row.id for row in store.sessions()] == [sessions[0].id]
    assert [each["table"] for each in aside(home)] == [table]
    assert (home.root / mending.ASIDE).stat().st_mode & 0o077 == 0


def test_a_frequent_command_finds_the_others(home: Home) -> None:
    """They read without the library of the store, which then mends what they cannot read."""
    damage(home, "sessions", "options", "{")
    assert peek.session(home.database, "bad") is None
    hf = Holdfast(home)
    assert hf.session("good").name == "good"
    row = hf.context.session_row("bad")
    assert "(options)" in row.details.trouble(row.container_id)


@pytest.mark.parametrize("value", ["{", BYTES, "5"])
def test_operations_entries_and_branches_are_mended_as_well(home: Home, value: Any) -> None:
    store = Store.open(home.database)
    row = store.session("bad")
    damage(home, "operations", "details", value)
    assert [each.session_id for each in store.operations.open()] == [store.session("good").id]
    damage(home, "operations", "kind", "nonsense", "rowid = 1")
    assert store.operations.open() == []
    damage(home, "branches", "position", "x")
    assert list(store.entries.branches()) == [store.session("good").id]
    damage(home, "entries", "body", "{", f"session_id = '{row.id}'")
    assert [entry.body for entry in store.entries.of([row.id])] == [{"damaged": True}]
    assert {each["table"] for each in aside(home)} == {"operations", "branches"}


def test_a_row_without_an_id_is_set_aside(home: Home) -> None:
    damage(home, "snapshots", "id", BYTES)
    store = Store.open(home.database)
    assert [row.label for row in store.snapshots()] == ["good-s"]
    (kept,) = aside(home)
    assert bytes.fromhex(kept["values"]["id"]) == BYTES
    assert bytes.fromhex(kept["values"]["label"]) == b"bad-s"


def test_a_session_that_snapshots_lack_is_unknown(home: Home) -> None:
    with closing(sqlite3.connect(home.database)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("UPDATE snapshots SET session_id = CAST(X'FF' AS TEXT) WHERE rowid = 2")
    store = Store.open(home.database)
    found = {row.label: row for row in store.snapshots()}
    session = store.find_session(found["bad-s"].session_id, removed=True)
    assert session is not None
    assert session.state == "removed"


def test_unrepairable_damage_is_reported(home: Home) -> None:
    damage(home, "snapshots", "details", "{")
    (home.root / mending.ASIDE).mkdir()  # so that nothing can be written there
    with pytest.raises(StoreError):
        Store.open(home.database).snapshots()
    with closing(sqlite3.connect(home.database)) as db:
        assert db.execute("SELECT details FROM snapshots WHERE rowid = 2").fetchone() == ("{",)


def test_leftovers_in_staging_are_removed_at_the_next_start(home: Home) -> None:
    store = Store.open(home.database)
    ended, going = (store.operations.begin(OperationKind.SNAPSHOT).id for _ in range(2))
    store.operations.end(ended, "failed")
    for name in (ended, going, "another"):
        (home.staging / name / "layer" / "data").mkdir(parents=True)
    Holdfast(home)
    assert {path.name for path in home.staging.iterdir()} == {going, "another"}
