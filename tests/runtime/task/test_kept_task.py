"""The task record in the store: many concurrent changes, each with its journal entry; none half done."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import BundleRefused, InvalidArgument, SessionNotFound
from holdfast.runtime.operations.context import Context
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.store.rows import SessionRow
from holdfast.runtime.task import kept_task, task_changes, task_form, task_items
from holdfast.runtime.task.handoff import handoff, tokens
from holdfast.runtime.task.task_record import StepAttempt
from holdfast.runtime.task.task_standing import standings
from holdfast.runtime.transfer import foreign_snapshot


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Home(tmp_path / "home").create(), "agent:coder")


@pytest.fixture
def session(context: Context) -> SessionRow:
    made = context.store.add_session("work", "image", {})
    kept_task.change(context, made.id, partial(task_changes.set_, goal="Port the store"))
    return made


def audit(context: Context, session: SessionRow) -> list[Any]:
    return [row for row in context.store.entries.of([session.id]) if row.kind == "task_changed"]


def test_changes_of_many_at_once_are_all_kept(context: Context, session: SessionRow) -> None:
    """Each is made of the record as it is then, and is one entry of its actor."""

    def work(name: str) -> None:
        mine = Context(context.home, f"agent:{name}")
        for number in range(10):
            kept_task.change(mine, session.id, partial(task_items.note, text=f"{name} {number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    record = kept_task.of(context.store.session("work"))
    assert record is not None
    assert (len(record.notes), record.revision) == (30, 31)
    assert sorted(row.body["revision"] for row in audit(context, session)) == list(range(1, 32))
    assert {row.actor for row in audit(context, session)} == {f"agent:{name}" for name in ("coder", *"abc")}


def test_a_change_that_is_refused_leaves_record_and_journal(context: Context, session: SessionRow) -> None:
    with pytest.raises(InvalidArgument):
        kept_task.change(context, session.id, partial(task_changes.step, number="1.1", status="active"))
    record = kept_task.of(context.store.session("work"))
    assert record is not None
    assert record.revision == 1
    assert len(audit(context, session)) == 1


def test_the_record_of_a_newer_version_is_kept_as_it_is(context: Context, session: SessionRow) -> None:
    """Reading and changing it are refused; the board says so, and shows the others."""
    newer = {"format": 2, "goals": ["g"]}
    context.store.keep_details(session.id, task=newer)
    other = context.store.add_session("other", "image", {})
    kept_task.change(context, other.id, partial(task_changes.set_, goal="another"))
    with pytest.raises(InvalidArgument, match="a newer version wrote it"):
        kept_task.change(context, session.id, partial(task_changes.set_, goal="mine"))
    assert context.store.session("work").details.task == newer
    shown = standings(context.store.sessions())
    assert [(each.session, each.state, each.goal) for each in shown] == [
        ("work", "unreadable", ""),
        ("other", "planned", "another"),
    ]


def test_a_row_that_was_damaged_by_hand_is_unreadable_everywhere(
    context: Context, session: SessionRow
) -> None:
    """The board shows it, reading and changing are refused alike, and it is kept as it is."""
    context.store.change_detail(session.id, "task", lambda _: ["x"])
    with pytest.raises(InvalidArgument, match="cannot read"):
        kept_task.of(context.store.session("work"))
    with pytest.raises(InvalidArgument, match="cannot read"):
        kept_task.change(context, session.id, partial(task_changes.set_, goal="mine"))
    assert [each.state for each in standings(context.store.sessions())] == ["unreadable"]


def test_a_removed_session_has_no_task_to_change(context: Context) -> None:
    with pytest.raises(SessionNotFound, match="it was removed"):
        kept_task.change(context, "0" * 12, partial(task_changes.set_, goal="g"))


def test_an_arriving_record_is_checked(context: Context, session: SessionRow) -> None:
    """A bundle from elsewhere brings a valid one, or is refused in one line."""
    task = context.store.session("work").details.task
    assert foreign_snapshot.taken_details(SnapshotDetails.of(task=task).portable).task == task
    forgeries: tuple[Any, ...] = (
        {"format": 2},
        {"format": 1, "goal": "\x1b[2J"},
        [],
        "x",
        {"format": 1, "x": "y" * 99999},
    )
    for forged in forgeries:
        with pytest.raises(BundleRefused, match="its task record: ") as refused:
            foreign_snapshot.taken_details({"task": forged})
        assert str(refused.value).isprintable()


@pytest.mark.parametrize("budget", [100, 101, 200, 400, 700, 5000])
def test_a_handoff_keeps_its_budget_and_counts_omissions(
    context: Context, session: SessionRow, budget: int
) -> None:
    plan = "Phase\n" + "\n".join(f"- Step number {number} :: make test-{number}" for number in range(20))
    kept_task.change(context, session.id, partial(task_changes.plan, text=plan))
    for number in range(20):
        made = partial(task_items.decide, text=f"decision {number} " + "x" * 40, why="because")
        record = kept_task.change(context, session.id, made)
    text = handoff("work", record, budget, "+ /workspace/new #3\n~ /workspace/old #4")
    assert tokens(text) <= budget
    assert text.startswith("Task of session work: Port the store\n")
    whole = all(f"decision {number} " in text for number in range(20))
    shown = sum(f"decision {number} " in text for number in range(20))
    counted = "" if whole else f"{20 - shown} decisions"
    assert counted in text or (budget < 200 and "more: `holdfast task show work`" in text)
    assert whole == (budget >= 700)


def test_a_handoff_that_cannot_fit_is_refused(context: Context, session: SessionRow) -> None:
    record = kept_task.of(context.store.session("work"))
    assert record is not None
    with pytest.raises(InvalidArgument, match="in 20 tokens: goal and resume point need"):
        handoff("work", record, 20)


def test_stored_rows_are_read_unchanged(context: Context, session: SessionRow) -> None:
    row = context.store.session("work")
    assert row.details.task is not None
    assert task_form.dump(task_form.load(row.details.task)) == row.details.task


def test_the_board_has_each_step_with_its_back_end(context: Context, session: SessionRow) -> None:
    """The back end and verification of a step, and its last attempt's."""
    set_ = partial(task_changes.set_, back_end="sqlite", profiles={"quick": "true"}, verify="@quick")
    kept_task.change(context, session.id, set_)
    kept_task.change(context, session.id, partial(task_changes.plan, text="A\n- One\n- Two :: make two"))
    kept_task.change(context, session.id, partial(task_changes.step, number="1.2", back_end="lmdb"))
    made = StepAttempt(
        entry="#3", outcome="failed", at=datetime.now(UTC), by="agent", profile="quick", back_end="sqlite"
    )
    kept_task.change(context, session.id, partial(task_changes.attempt, number="1.1", made=made))
    (standing,) = standings(context.store.sessions())
    one, two = standing.phases[0].each
    assert (one.back_end, one.verify, one.attempts, one.failures) == ("sqlite", "@quick", 1, 1)
    assert (one.last, one.last_profile, one.last_back_end) == ("failed", "quick", "sqlite")
    assert (two.back_end, two.verify, two.last) == ("lmdb", "make two", "")
