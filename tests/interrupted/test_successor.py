"""The program that is given a handoff alone: what it chooses for what a handoff says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.interrupted.successor import choose

from holdfast.runtime.task import task_changes, task_items
from holdfast.runtime.task.handoff import handoff
from holdfast.runtime.task.task_changes import Stamp
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ME, OTHER = Stamp("agent:coder", AT), Stamp("agent:other", AT)


def begun() -> TaskRecord:
    record = task_changes.set_(None, ME, goal="Port it").record
    return task_changes.plan(record, ME, "A\n- Read :: make read\n- Test :: make test").record


def failed(record: TaskRecord, times: int) -> TaskRecord:
    for number in range(times):
        made = StepAttempt(
            entry=f"#{number + 1}", outcome="failed", at=AT, by="a", failure_type="x", failure_detail="y"
        )
        record = task_changes.attempt(record, ME, "1.1", made).record
    return record


def finished(record: TaskRecord) -> TaskRecord:
    for number in ("1.1", "1.2"):
        record = task_changes.done(record, ME, number, "#5").record
    return record


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (lambda record: record, "work on 1.1"),
        (lambda record: failed(record, 1), "work on 1.1"),
        (lambda record: failed(record, 2), "work on 1.1 in another way"),
        (lambda record: task_changes.claim(record, OTHER, "1.1").record, "work on 1.2"),
        (
            lambda record: task_items.note(record, ME, "Which?", "question", step="1.1").record,
            "answer 1",
        ),
        (lambda record: task_changes.block(record, ME, "no key", "a key").record, "unblock"),
        (finished, "finish"),
    ],
)
def test_the_text_of_a_handoff_is_enough_to_choose(
    how: Callable[[TaskRecord], TaskRecord], expected: str
) -> None:
    assert choose(handoff("work", how(begun()), 700)) == expected


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        ("The session is dead: `holdfast task resume work` brings it back.", "bring back"),
        ("The session is suspended: `holdfast task resume work` brings it back.", "bring back"),
        ("Runs now: #12 `make`, sent with key k: the same key joins it; …", "wait for #12"),
    ],
)
def test_how_the_session_stands_comes_before_its_steps(standing: str, expected: str) -> None:
    assert choose(handoff("work", begun(), 700, standing=standing)) == expected
