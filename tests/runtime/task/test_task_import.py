"""An imported record takes nothing back silently, and a tick in it is not a verification."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.task import step_rules, task_items, task_markdown
from holdfast.runtime.task import task_changes as changes
from holdfast.runtime.task.task_changes import Stamp
from holdfast.runtime.task.task_import import imported
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord

AT = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
AGENT, ADA = Stamp("agent:coder", AT), Stamp("person:ada", AT)


def begun() -> TaskRecord:
    record = changes.set_(None, AGENT, goal="Port the store").record
    return changes.plan(record, AGENT, "Phase\n- Read\n- Migrate :: make check\n").record


def test_an_old_export_keeps_later_records() -> None:
    exported = begun()
    now = task_items.decide(exported, AGENT, "SQLite", "no server").record
    now = task_items.note(now, AGENT, "must not run twice", "risk").record
    with pytest.raises(InvalidArgument) as refused:
        imported(now, ADA, exported)
    assert str(refused.value) == (
        "cannot import the task record: it is revision 2; up to the present one, 4, these were added: "
        "decision 'SQLite', risk 'must not run twice'"
    )
    taken = imported(now, ADA, exported, replace=True)
    assert (taken.record.decisions, taken.record.revision, taken.record.by) == ((), 5, "person:ada")
    assert "gone: decision 'SQLite', risk 'must not run twice'" in taken.line


def test_an_edit_of_the_present_record_can_remove_items() -> None:
    now = task_items.note(begun(), AGENT, "Which version?", "question").record
    text = task_markdown.export(now)
    without = text.replace("- Which version?", "").replace(f"  - at: {AT:%Y-%m-%dT%H:%M:%SZ}\n", "")
    without = without.replace("  - by: agent:coder\n", "")
    other = task_markdown.parse(without, by="person:ada", at=AT)
    taken = imported(now, ADA, other)
    assert taken.record.questions == ()
    assert "gone: question 'Which version?'" in taken.line


def test_a_record_of_another_task_does_not_replace_work() -> None:
    other = changes.set_(None, ADA, goal="Something else").record
    worked = changes.attempt(
        begun(), AGENT, "1.2", StepAttempt(entry="#4", outcome="failed", at=AT, by="agent")
    ).record
    with pytest.raises(InvalidArgument, match=r"to a different task; .* attempts of step 'Migrate'"):
        imported(worked, ADA, other)
    assert imported(begun(), ADA, other).record.goal == "Something else", "nothing was done yet"


def test_a_tick_is_not_a_verification() -> None:
    """A step with a command is active, until `done` has run it; one without is done by word."""
    ticked = task_markdown.export(begun()).replace("- [ ]", "- [x]")
    other = task_markdown.parse(ticked)
    taken = imported(begun(), ADA, other)
    assert [step.status for _, step in taken.record.steps()] == ["done", "active"]
    assert "said to be done, and not verified: 1.2" in taken.line

    under_way = changes.claim(begun(), AGENT, "1.2").record
    text = task_markdown.export(under_way)
    assert "  - status: active" in text
    other = task_markdown.parse(text.replace("[ ] 1.2 ", "[x] 1.2 "))
    assert "said to be done, and not verified: 1.2" in imported(under_way, ADA, other).line

    proved = changes.verified(begun(), AGENT, "1.2", "make check", "#7").record
    again = imported(proved, ADA, task_markdown.parse(task_markdown.export(proved)))
    assert step_rules.find_step(again.record, "1.2").evidence == "#7"


def test_revisions_count_on_from_the_greater_one() -> None:
    later = task_items.note(begun(), AGENT, "a note").record
    assert imported(begun(), ADA, later).record.revision == later.revision + 1
    assert imported(None, ADA, later).record.revision == later.revision + 1
