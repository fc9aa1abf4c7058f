"""A handoff says what matters first, and counts what it leaves out, however long the plan is."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from holdfast.runtime.task import task_changes as changes
from holdfast.runtime.task import task_items
from holdfast.runtime.task.handoff import handoff, tokens
from holdfast.runtime.task.task_changes import Stamp
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord

AT = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
BY = Stamp("agent:coder", AT)
STEPS, DECISIONS = 60, 6


def long_task() -> TaskRecord:
    record = changes.set_(None, BY, goal="Split the library", resume_at="1.1: from the copy").record
    verify = ".venv/bin/python -m pytest -q tests/test_part_{0}.py tests/test_all.py --strict-markers"
    steps = "".join(f"- Move part {n} :: {verify.format(n)}\n" for n in range(STEPS))
    record = changes.plan(record, BY, f"Phase\n{steps}").record
    for number in range(DECISIONS):
        record = task_items.decide(record, BY, f"decision {number}", f"because of {number}").record
    record = task_items.note(record, BY, "the migration must not run twice", "risk").record
    return task_items.note(record, BY, "Which version?", "question").record


@pytest.mark.parametrize("budget", [300, 500, 1500, 5000])
def test_decisions_and_risks_come_before_far_off_steps(budget: int) -> None:
    drift = "\n".join(f"~ /workspace/file-{number} #3" for number in range(40))
    text = handoff("work", long_task(), budget, drift)
    assert tokens(text) <= budget
    assert "- 1.1 Move part 0 [open], verified by" in text
    shown = sum(f"- decision {number} " in text for number in range(DECISIONS))
    risk, question = "must not run twice" in text, "Which version?" in text
    left_out = text.rpartition("left out: ")[2]
    if shown < DECISIONS:
        assert f"{DECISIONS - shown} decisions" in left_out
    assert risk or "1 risk" in left_out
    assert question or "1 question" in left_out
    if budget >= 500:
        assert (shown, risk, question) == (DECISIONS, True, True)
    later = len(re.findall(r"^- 1\.\d+ Move part \d+ \[open\]$", text, re.MULTILINE))
    assert later == STEPS - 2 or f"{STEPS - 2 - later} later steps" in left_out
    assert "`holdfast task show work`" in text or budget >= 1500


def test_the_session_and_running_commands_come_first() -> None:
    how = "The session is dead: `holdfast task resume work` brings it back."
    lines = handoff("work", long_task(), standing=how).splitlines()
    assert lines[2] == how
    assert lines[3] == "Resume at: 1.1: from the copy (written at revision 1, 9 changes ago)"


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (["a", "a", "a"], "the last 3 failed in the same way"),
        (["a", "b", "b"], "the last 2 failed in the same way"),
        (["a", "b", "c"], "each of the 3 failed in a different way"),
        (["a", "b", "a"], None),
        (["a"], None),
    ],
)
def test_attempts_tell_whether_they_lead_anywhere(details: list[str], said: str | None) -> None:
    record = long_task()
    for number, detail in enumerate(details, start=1):
        made = StepAttempt(
            entry=f"#{number}",
            outcome="failed",
            at=AT,
            by="agent",
            failure_type="tests_failed",
            failure_detail=detail,
        )
        record = changes.attempt(record, BY, "1.1", made).record
    text = handoff("work", record)
    assert f"{len(details)} attempts, last: #{len(details)} failed, tests_failed: {details[-1]}" in text
    assert (said in text) if said else "failed in" not in text


def test_suggestions_that_did_not_help_are_named() -> None:
    """Each once, of the failures before the last one; none once an attempt has passed."""
    record = long_task()
    for number, (outcome, focus) in enumerate(
        [("failed", "read the log"), ("failed", "run it alone"), ("failed", "read the log"), ("failed", "x")],
        1,
    ):
        made = StepAttempt(
            entry=f"#{number}",
            outcome=outcome,  # type: ignore[arg-type]
            at=AT,
            by="agent",
            failure_type="tests_failed",
            failure_detail=f"t{number}",
            suggested_focus=focus,
        )
        record = changes.attempt(record, BY, "1.1", made).record
    said = "  suggested before, but it failed again: read the log; run it alone\n"
    assert said in handoff("work", record)
    passed = StepAttempt(entry="#9", outcome="passed", at=AT, by="agent")
    assert "suggested before" not in handoff("work", changes.attempt(record, BY, "1.1", passed).record)


def test_one_of_the_steps_in_full_can_be_taken() -> None:
    """Also if the first ones are claimed by others, which is reported with the time."""
    record = long_task()
    for number in ("1.1", "1.2", "1.3"):
        record = changes.claim(record, Stamp("agent:other", AT), number).record
    text = handoff("work", record)
    assert "claimed by agent:other since 2026-11-28 12:00 UTC" in text
    assert "  ends with `holdfast task done work 1.4`" in text
    assert "task done work 1.1" not in text


def test_keyed_commands_come_before_the_steps() -> None:
    text = handoff("work", long_task(), ran=["- #3 `make`: exit 0, sent with key step 1.1 by agent"])
    assert text.index("- #3 `make`") < text.index("Next steps")
