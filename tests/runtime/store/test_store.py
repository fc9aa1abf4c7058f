from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, SessionExists, SessionNotFound, SnapshotNotFound, StoreError
from holdfast.runtime.store import database, owner, peek, schema, timelines
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.store import Store


@pytest.fixture
def store(home: Home) -> Any:
    return Store.open(home.database)


def test_a_name_belongs_to_one_session_until_it_is_removed(store: Store) -> None:
    """A name in use is refused; the name of a removed session is free."""
    first = store.add_session("work", "image", {})
    with pytest.raises(SessionExists):
        store.add_session("work", "image", {})
    store.update_session(first.id, state="removed")

    assert store.add_session("work", "image", {}).id != first.id


def test_another_store_sees_everything(store: Store, home: Home) -> None:
    """Rows written by one store are read by another on the same home."""
    row = store.add_session("work", "image", {"memory": 1}, generation=2, parent_snapshot_id="s")
    row = store.update_session(row.id, state="running", container_id="c")

    assert [row] == Store.open(home.database).sessions()


def test_a_removed_session_stays_removed(store: Store) -> None:
    """A late change does not bring a session back."""
    row = store.add_session("work", "image", {})
    store.update_session(row.id, state="removed")

    with pytest.raises(SessionNotFound):
        store.update_session(row.id, state="running")


def test_a_session_in_a_snapshots_place_gets_a_hint(store: Store) -> None:
    """`restore work`, where `work` is a session."""
    store.add_session("work", "image", {})
    with pytest.raises(SnapshotNotFound) as found:
        store.snapshot("work")
    assert "`holdfast fork work` copies its present" in found.value.hint


def test_pending_snapshots_are_not_listed(store: Store) -> None:
    """A snapshot is visible when it is ready, not before."""
    session = store.add_session("work", "image", {})
    taken = store.add_snapshot(session.id, "live", label="before")
    with pytest.raises(SnapshotNotFound):
        store.snapshot("before")
    ready = store.update_snapshot(taken.id, state="ready", bytes=5 << 32, details={"a": [1]})

    assert ready == store.snapshot("before")
    assert ready.bytes == 5 << 32


def test_the_latest_snapshot_is_the_newest_complete_one(store: Store) -> None:
    """Unfinished ones and other sessions' do not count."""
    session = store.add_session("work", "image", {})
    assert store.latest_snapshot(session.id) is None
    for state in ("ready", "ready", "pending"):
        store.update_snapshot(store.add_snapshot(session.id, "live").id, state=state)
    other = store.add_session("other", "image", {})
    store.update_snapshot(store.add_snapshot(other.id, "live").id, state="ready")
    mine = [row for row in store.snapshots() if row.session_id == session.id]

    assert len(mine) == 2
    assert store.latest_snapshot(session.id) == mine[-1]


def test_a_label_is_taken_once(store: Store) -> None:
    """A label in use is refused; a removed snapshot's label is free."""
    session = store.add_session("work", "image", {})
    first = store.add_snapshot(session.id, "live", label="before")
    with pytest.raises(InvalidArgument, match="taken"):
        store.add_snapshot(session.id, "live", label="before")
    store.forget_snapshot(first.id)
    store.forget_snapshot(first.id)

    assert store.add_snapshot(session.id, "live", label="before")


def test_operations_are_open_until_they_end(store: Store) -> None:
    """An operation is listed from its intent to its end."""
    operation = store.operations.begin(OperationKind.NEW, details=OperationDetails(a=1))
    changed = store.operations.update(operation.id, session_id="x")

    assert [changed] == store.operations.open()
    store.operations.end(operation.id, "done")
    assert store.operations.open() == []


def test_an_operation_ends_once(store: Store) -> None:
    """A completed operation does not become a failure when it is closed again."""
    operation = store.operations.begin(OperationKind.SNAPSHOT)
    store.operations.complete(operation.id)
    store.operations.end(operation.id, "failed")
    with store.database.reading() as db:
        states = [row["state"] for row in db.rows(schema.OPERATIONS)]

    assert states == ["done"]


def test_a_transaction_is_seen_by_others_as_a_whole(store: Store, home: Home) -> None:
    """The thread itself sees it immediately; a name in use does not spoil the rest."""
    other = Store.open(home.database)
    store.add_session("taken", "image", {})
    with store.together():
        operation = store.operations.begin(OperationKind.NEW)
        with pytest.raises(SessionExists):
            store.add_session("taken", "image", {})
        row = store.add_session("work", "image", {})
        store.keep_details(row.id, hooks=["slow"])
        assert store.session("work").details.hooks == ["slow"]
        assert [each.name for each in other.sessions()] == ["taken"]
        assert other.operations.open() == []

    assert other.session("work").details.hooks == ["slow"]
    assert other.operations.open() == [operation]


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    """A failure takes back all of it, and the next write is a transaction of its own."""
    with pytest.raises(SessionNotFound), store.together():  # noqa: PT012
        store.add_session("work", "image", {})
        with store.together():
            store.add_session("second", "image", {})
        store.update_session("none", state="running")
    assert store.sessions() == []

    store.add_session("work", "image", {})
    assert [row.name for row in store.sessions()] == ["work"]


def test_writers_wait_for_each_other(home: Home) -> None:
    """Many concurrent threads lose nothing."""
    Store.open(home.database)

    def write(number: Any) -> None:
        Store.open(home.database).add_session(f"s{number}", "image", {})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(Store.open(home.database).sessions()) == 16


def test_one_of_many_gets_the_name(home: Home) -> None:
    """Of processes that want one name concurrently, exactly one gets it."""
    Store.open(home.database)
    got = []

    def take() -> None:
        with contextlib.suppress(SessionExists):
            got.append(Store.open(home.database).add_session("work", "image", {}))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(got) == 1


def test_a_newer_format_is_refused(store: Store, home: Home) -> None:
    """A database of a newer version is left alone, with a clear message."""
    with contextlib.closing(sqlite3.connect(home.database)) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")

    with pytest.raises(StoreError, match="newer version"):
        Store.open(home.database)
    assert peek.session(home.database, "x") is None


@pytest.mark.parametrize(
    "content", [b"this is no database, but long enough to be looked at" * 100, b"SQLite format 3\0" * 300]
)
def test_a_damaged_file_is_one_line(home: Home, content: Any) -> None:
    """A file that is not a database is an error that names it."""
    home.database.write_bytes(content)

    with pytest.raises(StoreError, match=r"^cannot use [^\n]+holdfast\.db: [^\n]+$"):
        Store.open(home.database)


def test_a_full_disk_is_one_line_and_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the database cannot grow, the error says so and its content stays."""
    row = store.add_session("work", "image", {})
    connected = database.connected

    def limited(path: Path) -> sqlite3.Connection:
        db = connected(path)
        db.execute("PRAGMA max_page_count = 1").close()
        return db

    monkeypatch.setattr(database, "connected", limited)
    with pytest.raises(StoreError, match="full") as refused:
        store.add_session("big", "image", {"env": {"A": "x" * 1_000_000}})

    assert "free" in refused.value.hint
    assert [row] == store.sessions()


def test_an_unusable_home_is_one_line(tmp_path: Path) -> None:
    """A home that cannot be made is an error that says how to choose another."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot use state directory") as refused:
        Home(tmp_path / "file" / "home").create()
    assert "HOLDFAST_HOME" in refused.value.hint


def test_peeking_agrees_with_the_store(store: Store, home: Home) -> None:
    """The quick read yields the same rows as the store."""
    assert peek.VERSION == schema.VERSION
    row = store.add_session("work", "image", {"memory": 1, "env": {"A": "ü"}}, parent_snapshot_id="p")
    row = store.update_session(row.id, state="running", container_id="c")
    snapshot = store.add_snapshot(row.id, "live")
    store.update_snapshot(snapshot.id, state="ready")

    assert row == peek.session(home.database, "work") == peek.session(home.database, row.id[:5])
    assert peek.names(home.database, "sessions") == ["work"]
    assert [snapshot.id] == peek.names(home.database, "snapshots")
    with pytest.raises(SessionNotFound):
        peek.session(home.database, "nope")


def test_peeking_without_a_database_asks_the_store(tmp_path: Path) -> None:
    """Where there is nothing to read, the quick read says so instead of guessing."""
    assert peek.session(tmp_path / "none.db", "x") is None
    assert peek.abandoned(tmp_path / "none.db") is None
    assert peek.names(tmp_path / "none.db", "sessions") == []


def test_an_operation_of_a_dead_process_is_abandoned(store: Store, home: Home) -> None:
    """An operation belongs to its living process; after the process it can be taken by any."""
    store.operations.begin(OperationKind.NEW)
    assert peek.abandoned(home.database) is False
    code = f"""
from pathlib import Path
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.store.store import Store
Store.open(Path({str(home.database)!r})).operations.begin(OperationKind.NEW)
"""
    subprocess.run([sys.executable, "-c", code], check=True)

    assert peek.abandoned(home.database) is True


def test_another_process_of_the_same_pid_is_not_the_owner() -> None:
    """The start time distinguishes a process from a later one with its pid."""
    mine = owner.start_of(os.getpid()) or ""

    assert owner.alive(os.getpid(), mine)
    assert not owner.alive(os.getpid(), mine + "0")
    assert owner.start_of(2**22 + 1) is None


def test_the_files_are_private(store: Store, home: Home) -> None:
    """No one else can read the state."""
    assert home.database.stat().st_mode & 0o777 == 0o600
    assert home.root.stat().st_mode & 0o777 == 0o700


OLD = """
CREATE TABLE operations (id VARCHAR NOT NULL, kind VARCHAR NOT NULL, session_id VARCHAR, snapshot_id VARCHAR,
    state VARCHAR NOT NULL, owner_pid INTEGER NOT NULL, owner_start VARCHAR NOT NULL,
    started_at VARCHAR NOT NULL, ended_at VARCHAR, details JSON NOT NULL, PRIMARY KEY (id));
CREATE INDEX operation_state ON operations (state);
CREATE TABLE sessions (id VARCHAR NOT NULL, name VARCHAR NOT NULL, state VARCHAR NOT NULL,
    image VARCHAR NOT NULL, container_id VARCHAR, parent_snapshot_id VARCHAR, generation INTEGER NOT NULL,
    options JSON NOT NULL, created_at VARCHAR NOT NULL, PRIMARY KEY (id));
CREATE UNIQUE INDEX session_name ON sessions (name) WHERE state != 'removed';
CREATE TABLE snapshots (id VARCHAR NOT NULL, label VARCHAR, kind VARCHAR NOT NULL, state VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL, parent_snapshot_id VARCHAR, image_id VARCHAR, bytes BIGINT NOT NULL,
    created_at VARCHAR NOT NULL, details JSON NOT NULL, PRIMARY KEY (id),
    FOREIGN KEY(session_id) REFERENCES sessions (id));
CREATE UNIQUE INDEX snapshot_label ON snapshots (label);
INSERT INTO sessions VALUES ('aaaaaaaaaaaa', 'work', 'running', 'i', 'c', NULL, 0, '{}',
    '2026-01-01T00:00:00.000000+00:00');
INSERT INTO snapshots VALUES ('bbbbbbbbbbbb', 'before', 'live', 'ready', 'aaaaaaaaaaaa', NULL, 'i', 7,
    '2026-01-01T00:00:00.000000+00:00', '{}');
"""


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_database_of_an_older_version_becomes_one_of_today(home: Home, version: int) -> None:
    """Its content stays, and its schema is a new database's."""
    with closing(sqlite3.connect(home.database)) as db:
        db.executescript(OLD)
        for statement in [part for step in range(1, version) for part in schema.MIGRATIONS[step]]:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")

    store = Store.open(home.database)
    store.entries.note("aaaaaaaaaaaa", "noted", 1.0, actor="agent", body={"x": 1})

    assert store.session("work").container_id == "c"
    assert store.session("work").details == {"of_older": "c"}
    before = store.snapshot("before")
    assert (before.bytes, before.pinned, before.reason) == (7, False, None)
    assert [row.body for row in store.entries.of(["aaaaaaaaaaaa"])] == [{"x": 1}]
    assert peek.session(home.database, "work") == store.session("work")
    Store.open(home.root / "new.db")
    assert _shape(home.database) == _shape(home.root / "new.db")


def test_details_are_kept_one_by_one(store: Store) -> None:
    """Parts that keep something about a session leave others' details; None removes one."""
    session = store.add_session("work", "image", {})
    store.keep_details(session.id, refused={"a": 1}, capture_failed="2")
    store.keep_details(session.id, capture_failed=None, hooks=["3"])
    store.keep_details("gone", refused={})

    assert store.session("work").details == {"refused": {"a": 1}, "hooks": ["3"]}


def test_a_snapshot_in_the_middle_leaves_no_gap(store: Store) -> None:
    """Successors of a removed snapshot follow its predecessor, including sessions."""
    made = store.add_session("work", "image", {})
    first = store.add_snapshot(made.id, "live")
    middle = store.add_snapshot(made.id, "live", parent_snapshot_id=first.id)
    last = store.add_snapshot(made.id, "live", parent_snapshot_id=middle.id)
    fork = store.add_session("fork", "image", {}, parent_snapshot_id=middle.id)
    for row in (first, middle, last):
        store.update_snapshot(row.id, state="ready")

    store.forget_snapshot(middle.id)
    assert store.snapshot(last.id).parent_snapshot_id == first.id
    assert store.session("fork").parent_snapshot_id == middle.id
    assert timelines.predecessor(store.session("fork"), {first.id, last.id}) == first.id
    store.forget_snapshot(first.id)
    assert store.snapshot(last.id).parent_snapshot_id is None
    assert timelines.predecessor(store.session("fork"), {last.id}) is None
    assert fork.id == store.session("fork").id


def _shape(path: Path) -> dict[str, object]:
    with closing(sqlite3.connect(path)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        shape: dict[str, object] = {
            name: db.execute(f"PRAGMA table_info({name})").fetchall() for name in names
        }
        shape["indexes"] = sorted(
            (name, table, [row[2] for row in db.execute(f"PRAGMA index_info({name})")])
            for name, table in db.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'")
        )
        shape["version"] = db.execute("PRAGMA user_version").fetchone()
    return shape


def test_sessions_are_listed_without_the_library_as_with_it(tmp_path: Path) -> None:
    """A damaged row is left to the store, which says what is wrong."""
    path = tmp_path / "store.db"
    assert peek.sessions(path) is None
    store = Store.open(path)
    for name in ("b", "a", "gone"):
        store.add_session(name, "image", {"memory": "1g"})
    store.update_session(store.session("gone").id, state="removed")

    assert peek.sessions(path) == store.sessions()
    assert [row.name for row in peek.sessions(path) or ()] == ["b", "a"]
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sessions SET created_at = 'x' WHERE name = 'a'")
    db.close()
    assert peek.sessions(path) is None
