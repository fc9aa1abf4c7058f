"""Commands with a key that have ended, and that the record lacks: a successor must not run them twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

from holdfast.runtime.store.entry import Entry
from holdfast.runtime.task import task_changes
from holdfast.runtime.task.handoff import keyed_work
from holdfast.runtime.task.task_changes import Stamp
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ME, OTHER = Stamp("agent:coder/a1", AT), Stamp("agent:coder/b2", AT)


def begun() -> TaskRecord:
    record = task_changes.set_(None, ME, goal="Port it").record
    return task_changes.plan(record, ME, "A\n- Read\n- Test :: make test").record


def entry(seq: int, kind: str, actor: str, *, host: bool = False, **details: Any) -> Entry:
    return Entry("id", "work", seq, float(seq), kind, actor, host, details=details)


def ran(number: int, key: str | None, actor: str = ME.by, **end: Any) -> Iterator[Entry]:
    said: dict[str, Any] = {"key": key} if key else {}
    yield entry(number, "command_started", actor, id=f"c{number}", command=f"make {number}", **said)
    if end:
        yield entry(number + 1, "command_ended", "", id=f"c{number}", **end)


def done(seq: int, actor: str) -> Entry:
    return entry(seq, "task_changed", actor, host=True, step="1.1", step_status="done")


def test_a_command_that_ended_and_is_recorded_at_no_step_is_named() -> None:
    """With its exit code and key. Commands without a key, and running ones, are others' concern."""
    entries = [
        *ran(1, "step 1.1", exit_code=0),
        *ran(3, None, exit_code=0),
        *ran(5, "step 1.2"),
        *ran(7, "again", signal=9),
    ]
    found = keyed_work(entries, begun())
    assert [each.text for each in found] == [
        "- #1 `make 1`: exit 0, sent with key step 1.1 by agent:coder/a1",
        "- #7 `make 7`: ended, sent with key again by agent:coder/a1",
    ]


def test_a_command_that_is_an_attempt_is_in_the_record_already() -> None:
    made = StepAttempt(entry="#1", outcome="passed", at=AT, by=ME.by)
    record = task_changes.attempt(begun(), ME, "1.1", made).record
    assert keyed_work(ran(1, "step 1.1", exit_code=0), record) == []


def test_a_finished_step_ends_its_attempts() -> None:
    """Also if a different agent verified it; of an agent who has claimed a step, only its own attempts."""
    entries = [*ran(1, "step 1.1", exit_code=0), done(2, OTHER.by)]
    assert keyed_work(entries, begun()) == []
    claimed = task_changes.claim(begun(), ME, "1.2").record
    assert [each.entry for each in keyed_work(entries, claimed)] == ["#1"]
    assert keyed_work([*entries, done(3, ME.by)], claimed) == []


def test_a_session_cannot_end_it_and_only_the_newest_are_named() -> None:
    """A session's own entry does not change its task, and no control character reaches a reader."""
    forged = entry(2, "task_changed", ME.by, step="1.1", step_status="done")
    assert len(keyed_work([*ran(1, "k\x1b[2J", exit_code=0), forged], begun())) == 1
    assert "\x1b" not in keyed_work(ran(1, "k\x1b[2J", exit_code=0), begun())[0].text
    numbers = count(1, 2)
    many = [each for _ in range(9) for each in ran(next(numbers), "k", exit_code=0)]
    assert [each.entry for each in keyed_work(many, begun())] == ["#13", "#15", "#17"]
    nonsense = [entry(1, "command_started", "a", id=[], key=3), entry(2, "command_ended", "a", exit_code="x")]
    assert keyed_work(nonsense, begun()) == []
