"""The work on tasks in a span of time: of entries as homes keep them, also in removed sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.store.entry import Entry
from holdfast.runtime.task.work_report import session_work

CODER = "agent:coder/a1"


def entry(at: float, actor: str = CODER, *, host: bool = True, **facts: Any) -> Entry:
    return Entry("s" * 12, "work", 7, at, "task_changed", actor, host=host, details={"what": "x", **facts})


def step(number: str, title: str, status: str, **facts: Any) -> dict[str, Any]:
    return {"step": number, "step_title": title, "step_status": status, **facts}


ENTRIES = [
    entry(1.0, **step("1.1", "Test", "active", entry="#3", outcome="failed", failure_type="tests_failed")),
    entry(
        2.0, **step("1.1", "Test", "active", entry="#4", outcome="passed", profile="quick", back_end="sqlite")
    ),
    entry(3.0, **step("1.1", "Test", "done", evidence="#4")),
    entry(4.0, "person:ada", **step("1.2", "Read", "done")),
    entry(5.0, decision="SQLite", why="no server"),
    entry(6.0, alternative="LMDB", why="no SQL"),
    entry(7.0, blocked="no key", needs="a key"),
    entry(8.0, unblocked="no key", how="ada sent one"),
    entry(9.0, checkpoint="kept"),
]


def test_a_report_lists_work_authors_and_verifications() -> None:
    work = session_work(ENTRIES, "work", "s" * 12, "removed", "Port it")
    assert work is not None
    assert list(work.lines()) == [
        "work [removed]: Port it",
        f"  01-01 00:00  1.1 Test: done by {CODER}, verified by #4 (quick), "
        "1 attempts failed, last tests_failed",
        "  01-01 00:00  1.2 Read: done by person:ada, as it says",
        "  decided: SQLite (no server)",
        "  not taken: LMDB (no SQL)",
        "  blocked: no key; needs a key",
        "  unblocked: no key; ada sent one",
        "  checkpoints: kept",
    ]
    assert work.steps[0].back_end == "sqlite"


def test_a_sessions_own_writes_are_not_reported() -> None:
    """It can write entries of any kind into its own journal."""
    forged = [entry(1.0, host=False, **step("1.1", "All of it", "done", evidence="#1"))]
    assert session_work(forged, "work", "s" * 12, "running", "") is None
    hostile = [entry(1.0, **step("1.1", "a\x1b[2Jb", "done", evidence=["#1"]))]
    work = session_work(hostile, "work", "s" * 12, "running", "\x1b]0;x\x07")
    assert work is not None
    assert "\x1b" not in "".join(work.lines())


@pytest.fixture
def home(tmp_path: Path) -> Holdfast:
    return Holdfast(tmp_path / "home", actor=CODER)


def test_a_report_covers_removed_sessions_and_only_its_period(home: Holdfast) -> None:
    """Removed ones are marked as such; older work is left out."""
    entries = home.store.entries
    ids = {name: home.store.add_session(name, "image", {}, state="running").id for name in ("gone", "here")}
    for name, at in (("gone", 100.0), ("here", 200.0), ("here", 50.0)):
        facts = step("1.1", f"Step of {at}", "done")
        entries.note(ids[name], "task_changed", at, actor=CODER, body={"what": "x", **facts})
    entries.note(ids["here"], "exec", 200.0, actor=CODER, body={"step": "9.9"})
    home.store.update_session(ids["gone"], state="removed")
    report = home.report(datetime.fromtimestamp(90, UTC))
    assert [(each.session, each.state, [one.title for one in each.steps]) for each in report.sessions] == [
        ("gone", "removed", ["Step of 100.0"]),
        ("here", "running", ["Step of 200.0"]),
    ]
    assert report.text().startswith("since 1970-01-01 00:01 UTC: 2 steps done in 2 sessions, 0 verified\n")
    assert home.report(datetime.fromtimestamp(300, UTC)).sessions == ()
