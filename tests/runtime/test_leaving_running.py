"""A home is not upgraded while sessions run in it that only the version before reaches."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.store.test_store import OLD

from holdfast.base.home import Home
from holdfast.errors import EngineError, StoreError
from holdfast.runtime.operations import leaving_running
from holdfast.runtime.store import schema
from holdfast.runtime.store.store import Store

SESSIONS = {"c1": "work", "c2": "other"}


def test_running_sessions_are_named() -> None:
    with pytest.raises(StoreError, match=r"it holds 1 running session \(other\)") as refused:
        leaving_running.check(Path("/home"), SESSIONS, lambda: {"c2", "c3"})
    assert "suspend or remove them with that version first" in refused.value.hint
    leaving_running.check(Path("/home"), SESSIONS, lambda: {"c3"})


def test_without_sessions_the_engine_is_not_asked() -> None:
    def running() -> set[str]:
        raise AssertionError

    leaving_running.check(Path("/home"), {}, running)


def test_without_the_engine_they_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def running() -> set[str]:
        raise EngineError("cannot reach the engine")

    with pytest.raises(StoreError, match="does not say whether they run") as refused:
        leaving_running.check(Path("/home"), SESSIONS, running)
    monkeypatch.setenv(leaving_running.VARIABLE, "1")
    assert f"{leaving_running.VARIABLE}=1" in refused.value.hint
    leaving_running.check(Path("/home"), SESSIONS, running)


def test_a_refused_upgrade_changes_nothing(home: Home) -> None:
    with closing(sqlite3.connect(home.database)) as db:
        db.executescript(OLD)
        db.execute("PRAGMA user_version = 1")
    before = home.database.read_bytes()

    def refuse(sessions: object) -> None:
        assert sessions == {"c": "work"}
        raise StoreError("cannot")

    with pytest.raises(StoreError, match="cannot"):
        Store.open(home.database, refuse)
    assert home.database.read_bytes() == before
    Store.open(home.database)
    with closing(sqlite3.connect(home.database)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    Store.open(home.database, refuse)  # has been upgraded
