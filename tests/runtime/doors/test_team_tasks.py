"""The tasks that a server repeats for each of its teams, when the store of one of them cannot be used."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.doors.served_teams import TwoTeams, run_teams
from tests.runtime.doors.test_teams import bearer

from holdfast.base.home import Home
from holdfast.runtime.lifetimes import session_ends
from holdfast.runtime.notices.subscriptions import FILE as NOTICES
from holdfast.runtime.notices.subscriptions import Subscriptions
from holdfast.runtime.serve import lifetime_task, metrics_task, notice_task, pool_task
from holdfast.runtime.serve.api_server import until_next
from holdfast.runtime.serve.call_threads import WorkerThreads
from holdfast.runtime.store import beside_database, database
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.store import Store

PATIENCE = 60.0
"""Seconds; only of a test that fails."""
TELLS = (
    "cannot look for the ends of sessions", "cannot sample sessions", "pool: ", "cannot look for notices",
)  # fmt: skip
"""The beginnings of messages of tasks about a round that they could not do."""


@contextmanager
def gone(path: Path) -> Iterator[None]:
    """Take a file away, with something else under its name, and put it back."""
    aside = path.with_suffix(".aside")
    path.rename(aside)
    path.mkdir()
    try:
        yield
    finally:
        path.rmdir()
        aside.rename(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a database as a process in the middle of a commit does."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("BEGIN EXCLUSIVE")
        os.utime(path)
        yield
    finally:
        db.close()


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Overwrite a database in its place, and write it back."""
    kept = path.read_bytes()
    path.write_bytes(b"\xa5" * len(kept))
    try:
        yield
    finally:
        path.write_bytes(kept)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have tasks look all the time, and note the sessions whose ends are carried out."""
    found: list[str] = []
    for module, name in (
        (lifetime_task, "LOOK_SECONDS"), (pool_task, "LOOK_SECONDS"), (notice_task, "LOOK_SECONDS"),
        (metrics_task, "FINE_SECONDS"), (database, "BUSY_SECONDS"), (beside_database, "BUSY_SECONDS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 0.02)

    def carry_out(_context: Any, _watch: Any, session_id: str, _step: str) -> str:
        found.append(session_id)
        return ""

    monkeypatch.setattr(session_ends, "carry_out", carry_out)
    return found


def _over(home: Home, id_: str) -> None:
    """Add a session whose life has ended."""
    details = SessionDetails().plus(lifetime=Lifetime(life=1.0, ends_at=1.0).as_dict())
    Store.open(home.database).add_session(
        f"over-{id_[0]}", "image", {}, session_id=id_, state="running", details=details
    )


async def _until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not met():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("breaks", [gone, locked, damaged], ids=["gone", "locked", "damaged"])
def test_a_store_that_cannot_be_used_keeps_no_other_team_waiting(
    breaks: Any, tmp_path: Path, ended: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Each task skips its round and says why; the other team's continue, and all do once it is back."""
    caplog.set_level(logging.ERROR, "holdfast.serve")

    async def steps(both: TwoTeams) -> None:
        red, blue = (both.teams[name].home for name in ("red", "blue"))
        subscriptions = Subscriptions(blue)
        subscriptions.add("agent:ci", "token", "webhook", "https://example.org/", "secret")
        subscriptions.close()
        _over(blue, "5" * 12)
        await _until(lambda: "5" * 12 in ended)
        with breaks(Path(blue.database)), locked(blue.root / NOTICES):
            caplog.clear()
            await _until(lambda: all(each in caplog.text for each in TELLS))
            _over(red, "6" * 12)
            await _until(lambda: "6" * 12 in ended)
            assert (await both.ask("GET", "/v1/sessions", bearer(both.keys["red"]))).status == 200
            assert (await both.ask("GET", "/v1/sessions", bearer(both.keys["blue"]))).status in (500, 503)
        _over(blue, "7" * 12)
        await _until(lambda: "7" * 12 in ended)
        caplog.clear()
        await _until(lambda: both.of("blue").doors.callers.seen.stamp() is not None)
        assert (await both.ask("GET", "/v1/sessions", bearer(both.keys["blue"]))).status == 200

    run_teams(tmp_path, steps)


def test_idle_teams_wake_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: list[str]) -> None:
    """What has not changed is seen by a look at a file, in the loop: idle teams cost little."""
    begun: list[str] = []
    do = WorkerThreads.do

    def noted(self: WorkerThreads, work: Any) -> None:
        begun.append(threading.current_thread().name)
        do(self, work)

    monkeypatch.setattr(WorkerThreads, "do", noted)
    rounds: list[None] = []

    def counted(seconds: float) -> float:
        rounds.append(None)
        return until_next(seconds)

    for module in (lifetime_task, pool_task, notice_task):
        monkeypatch.setattr(module, "until_next", counted)

    async def steps(both: TwoTeams) -> None:
        stores = [both.of(name).doors.callers.seen for name in both.teams]
        await _until(
            lambda: all(each.stamp() is not None for each in (*stores, both.doors.doors.callers.seen))
        )
        now = len(rounds)
        await _until(lambda: len(rounds) > now + 40)  # rounds that began before have read everything once
        begun.clear()
        now = len(rounds)
        await _until(lambda: len(rounds) > now + 200)
        assert begun == []
        # A change is seen by the next round.
        _over(both.teams["red"].home, "6" * 12)
        await _until(lambda: "6" * 12 in ended)

    run_teams(tmp_path, steps)
