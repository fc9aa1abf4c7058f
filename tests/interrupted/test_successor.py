"""The program that is given a handoff alone: its choice for the statements of a handoff."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.interrupted.happenings import EVENTS, hands, taken
from tests.interrupted.real_projects import PROJECTS
from tests.interrupted.successor import choose

from holdfast.runtime.task import task_changes, task_items
from holdfast.runtime.task.handoff import KeyedCommand, handoff
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
    assert choose(handoff("work", how(begun()), 700))["action"] == expected


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        ("The session is dead: `holdfast task resume work` brings it back.", "bring back"),
        ("The session is suspended: `holdfast task resume work` brings it back.", "bring back"),
        (
            "Runs now: #12 `make`, sent with key k: the same key joins it; `holdfast wait work c1` …",
            "wait for #12",
        ),
    ],
)
def test_how_the_session_stands_comes_before_its_steps(standing: str, expected: str) -> None:
    assert choose(handoff("work", begun(), 700, standing=standing))["action"] == expected


def test_work_that_was_done_and_not_recorded_is_verified_and_not_repeated() -> None:
    """A failed command is not taken for done."""
    for code, expected in ((0, "verify 1.1"), (1, "work on 1.1")):
        ran = [KeyedCommand("#7", "step 1.1", "agent:/w1", "make migrate", code).text]
        chosen = choose(handoff("work", begun(), 700, ran=ran))
        assert (chosen["action"], chosen["command"]) == (expected, "holdfast task done work 1.1")


def test_files_that_others_have_changed_are_looked_at() -> None:
    drift = (
        "since base:\n+ /workspace/copied 3 B from outside by person:bob\n~ /workspace/a b.py 2 B +1 #5\n"
        "+ /workspace/one 0 B #3\nby #3 agent:/w1 `touch one`; #5 person:ada `vi`"
    )
    chosen = choose(handoff("work", begun(), 700, drift))
    assert chosen["look_at"] == ["/workspace/copied", "/workspace/a b.py"]


@pytest.mark.parametrize("seed", range(20))
def test_everything_happens_in_one_of_three_jobs_before_its_steps_are_done(seed: int) -> None:
    dealt = hands(seed, len(PROJECTS))
    assert {event for hand in dealt for event in hand} == set(EVENTS)
    for project, hand in zip(PROJECTS, dealt, strict=True):
        assert sum(map(taken, hand)) <= len(project.steps())
    assert sum(map(len, dealt)) + len(PROJECTS) >= 30
