"""The agent at a step, the step's dependencies, its verification, and the paths not taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.task import checkpoint_policy, step_rules, task_changes, task_import, task_items
from holdfast.runtime.task.handoff import UNLIMITED, block_report, handoff
from holdfast.runtime.task.task_changes import Stamp
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ONE, TWO = Stamp("agent:coder/a1", AT), Stamp("agent:coder/b2", AT)


def begun() -> TaskRecord:
    record = task_changes.set_(None, ONE, goal="Port it", profiles={"quick": "make quick"}).record
    plan = "Prepare\n- Read\n- Test :: @quick\nChange\n- Move :: make check"
    return task_changes.plan(record, ONE, plan).record


def test_a_claimed_step_is_left_to_its_claimant() -> None:
    """A second run of the same agent is a different claimant; the error names its alternatives."""
    record = task_changes.claim(begun(), ONE, "1.1").record
    step = step_rules.find_step(record, "1.1")
    assert (step.status, step.claim and step.claim.by) == ("active", "agent:coder/a1")
    refused: list[Any] = [
        lambda: task_changes.claim(record, TWO, "1.1"),
        lambda: task_changes.done(record, TWO, "1.1", None),
        lambda: task_changes.step(record, TWO, "1.1", status="skipped"),
        lambda: task_changes.attempt(record, TWO, "1.1", tried("#4")),
    ]
    for change in refused:
        with pytest.raises(InvalidArgument, match="agent:coder/a1 has been at it since"):
            change()
    assert task_changes.done(record, TWO, "1.2", "#5").record.finished == (1, 3), (
        "others can continue elsewhere"
    )
    taken = task_changes.claim(record, TWO, "1.1", take=True)
    assert taken.line == "step 1.1: claimed, taken over from agent:coder/a1"
    ended = task_changes.done(taken.record, TWO, "1.1", None).record
    assert step_rules.find_step(ended, "1.1").claim is None
    with pytest.raises(InvalidArgument, match="it is done"):
        task_changes.claim(ended, ONE, "1.1")


def test_a_claim_can_be_given_up() -> None:
    record = task_changes.claim(begun(), ONE, "1.1").record
    free = task_changes.release(record, TWO, "1.1").record
    assert step_rules.find_step(free, "1.1").claim is None
    with pytest.raises(InvalidArgument, match="it is not claimed"):
        task_changes.release(free, TWO, "1.1")


def test_a_question_blocks_its_step_until_it_is_answered() -> None:
    """The answer is a decision; dropping the question frees the step as well."""
    record = task_items.note(begun(), ONE, "Which version?", "question", step="1.1").record
    with pytest.raises(InvalidArgument, match=r"question 1 is open, 'Which version\?'") as refused:
        task_changes.done(record, ONE, "1.1", None)
    assert "task answer S 1 TEXT" in str(refused.value.hint)
    assert "  waits for the answer to question 1: Which version?" in handoff("work", record, UNLIMITED)
    answered = task_items.answer(record, TWO, 1, "3.41").record
    assert (answered.questions, answered.decisions[0].text) == ((), "3.41")
    assert answered.decisions[0].why == "answers: Which version?"
    assert task_changes.done(answered, ONE, "1.1", None).record.finished == (1, 3)
    assert task_changes.done(task_items.drop(record, ONE, "question", 1).record, ONE, "1.1", None)
    with pytest.raises(InvalidArgument, match="there are 0"):
        task_items.answer(answered, ONE, 1, "again")
    with pytest.raises(InvalidArgument, match=r"cannot find step 9.9"):
        task_items.note(record, ONE, "Why?", "question", step="9.9")


def test_a_question_follows_its_step_into_another_plan() -> None:
    """By the step's title; a question of a removed step blocks nothing any more."""
    record = task_items.note(begun(), ONE, "Which?", "question", step="2.1").record
    moved = task_changes.plan(record, ONE, "Change\n- Move :: make check\nPrepare\n- Read").record
    assert moved.questions[0].step == "1.1"
    gone = task_changes.plan(record, ONE, "Prepare\n- Read").record
    assert gone.questions[0].step is None


def test_questions_come_before_a_plan() -> None:
    """As long as there is none, they are the first thing to be done."""
    record = task_changes.set_(None, ONE, goal="Port it").record
    record = task_items.note(record, ONE, "Which database?", "question").record
    text = handoff("work", record)
    assert "To be answered before a plan\n- Which database?" in text
    planned = task_changes.plan(record, ONE, "P\n- Go").record
    assert "Open questions\n- Which database?" in handoff("work", planned)


def test_a_step_is_verified_by_a_profile_of_the_policy() -> None:
    """By the step's own, else by the policy's; one that is missing is named."""
    record = begun()
    test, read = step_rules.find_step(record, "1.2"), step_rules.find_step(record, "1.1")
    assert (step_rules.verification(record, test), step_rules.profile(record, test)) == (
        "make quick",
        "quick",
    )
    assert step_rules.verification(record, read) is None
    named = task_changes.set_(record, ONE, verify="@full", profiles={"full": "make full"}).record
    assert step_rules.verification(named, read) == "make full"
    assert named.policy.profiles == {"quick": "make quick", "full": "make full"}
    removed = task_changes.set_(named, ONE, profiles={"quick": ""}).record
    with pytest.raises(InvalidArgument, match="by profile 'quick'"):
        step_rules.verification(removed, step_rules.find_step(removed, "1.2"))
    with pytest.raises(InvalidArgument, match="profiles"):
        task_changes.set_(record, ONE, profiles={"Not A Name": "make"})


def test_a_step_can_have_a_back_end_of_its_own() -> None:
    record = task_changes.set_(begun(), ONE, back_end="sqlite").record
    other = task_changes.step(record, ONE, "2.1", back_end="postgres").record
    ends = [step_rules.back_end(other, step) for _, step in other.steps()]
    assert ends == ["sqlite", "sqlite", "postgres"]
    back = task_changes.step(other, ONE, "2.1", back_end="").record
    assert step_rules.back_end(back, step_rules.find_step(back, "2.1")) == "sqlite"


def test_paths_not_taken_are_handed_over_with_their_reason() -> None:
    record = task_items.alternative(begun(), ONE, "Use LMDB", "no SQL in it").record
    assert "Paths not taken\n- Use LMDB (no SQL in it)" in handoff("work", record, UNLIMITED)
    assert task_items.alternative(record, ONE, "Use LMDB", "another reason").record.alternatives[0].why == (
        "another reason"
    )
    assert task_items.drop(record, ONE, "alternative", 1).record.alternatives == ()


def test_how_a_block_was_resolved_is_kept() -> None:
    record = task_changes.block(begun(), ONE, "no key", "a key", step_number="1.1").record
    assert list(block_report("work", record))
    free = task_changes.unblock(record, TWO, "ada sent one")
    assert free.record.notes[-1].text == "unblocked: no key; ada sent one"
    assert dict(free.facts) == {"unblocked": "no key", "how": "ada sent one"}
    assert task_changes.unblock(record, TWO).record.notes == ()


@pytest.mark.parametrize(
    ("policy", "age", "step_done", "expected"),
    [
        ("", 99, True, False),
        ("step", 0, True, True),
        ("step", 99, False, False),
        ("30m", 29, True, False),
        ("30m", 31, False, True),
        ("30m", None, False, True),
        ("step 2h", 60, True, True),
    ],
)
def test_checkpoints_are_due_by_policy(policy: str, age: int | None, step_done: bool, expected: bool) -> None:
    """After each step, or when the last one is older than a time."""
    record = begun()
    if policy:
        record = task_changes.set_(record, ONE, checkpoint=policy).record
    now = AT + timedelta(minutes=age or 0)
    if age is not None:
        record = task_changes.checkpoint(record, ONE, "kept", None).record
    assert checkpoint_policy.due(record, now, step_done=step_done) is expected


@pytest.mark.parametrize("policy", ["often", "step step2", "30", "0m"])
def test_a_policy_for_checkpoints_that_says_nothing_is_refused(policy: str) -> None:
    """A number alone is seconds, as elsewhere."""
    if policy == "30":
        assert task_changes.set_(begun(), ONE, checkpoint=policy)
        return
    with pytest.raises(InvalidArgument, match="cannot take checkpoints at"):
        task_changes.set_(begun(), ONE, checkpoint=policy)


def test_no_step_gets_the_title_of_another_one_of_its_phase() -> None:
    """A later plan finds steps by phase and title."""
    with pytest.raises(InvalidArgument, match="a step of its phase already has that title"):
        task_changes.step(begun(), ONE, "1.1", title=" Test ")
    assert task_changes.step(begun(), ONE, "1.1", title="Move").record, "of another phase it may"


def tried(entry: str) -> StepAttempt:
    return StepAttempt(entry=entry, outcome="failed", at=AT, by="agent")


def test_impossible_values_are_not_imported() -> None:
    """Times of another century, and evidence that this session's journal does not have."""
    record = begun()
    proved = task_changes.done(record, ONE, "1.2", "#999999").record
    with pytest.raises(InvalidArgument, match=r"step 1.2 refers to #999999, and the journal ends at #52"):
        task_import.imported(record, ONE, proved, last_entry=52)
    attempted = task_changes.attempt(record, ONE, "1.1", tried("#53")).record
    with pytest.raises(InvalidArgument, match=r"step 1.1 refers to #53"):
        task_import.imported(record, ONE, attempted, last_entry=52)
    assert task_import.imported(record, ONE, proved, last_entry=999999).record.finished == (1, 3)
    assert task_import.imported(None, ONE, proved, last_entry=3), (
        "of another session's journal nothing is known"
    )
    for year in (1999, 2926):
        late = task_changes.with_fields(record, updated=AT.replace(year=year))
        with pytest.raises(InvalidArgument, match=f"it has the time {year}-03-01 12:00, which cannot be"):
            task_import.imported(record, ONE, late)
        said = task_items.note(record, Stamp("ada", AT.replace(year=year)), "hm").record
        said = task_changes.with_fields(said, updated=AT)
        with pytest.raises(InvalidArgument, match="which cannot be"):
            task_import.imported(record, ONE, said)
