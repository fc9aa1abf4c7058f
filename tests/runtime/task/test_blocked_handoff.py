"""The report of blocked work: for anyone who unblocks it, and for the successor."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.runtime.task import task_changes as changes
from holdfast.runtime.task.handoff import block_report, handoff, resume_command
from holdfast.runtime.task.task_changes import Stamp
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord

AT = datetime(2026, 11, 26, 21, 0, 5, tzinfo=UTC)
BY = Stamp("agent:coder", AT)


def begun() -> TaskRecord:
    first = changes.set_(None, BY, goal="Port the store").record
    return changes.plan(first, BY, "Change\n- Migrate :: make check\n").record


def test_the_handoff_has_everything_for_unblocking_and_continuing() -> None:
    failed = StepAttempt(
        entry="#6", outcome="failed", at=AT, by="agent", failure_type="http_error", failure_detail="403"
    )
    record = changes.attempt(begun(), BY, "1.1", failed).record
    record = changes.block(
        record, BY, "no key", "a key", step_number="1.1", entry="#6", tried="the old key"
    ).record
    assert list(block_report("work", record)) == [
        "BLOCKED: no key. Needs: a key",
        "since 2026-11-26 21:00 UTC, recorded by agent:coder",
        "step: 1.1 Migrate",
        "evidence: #6, `holdfast journal work --since 5`",
        "tried: the old key",
        "attempts: 1, last #6 failed, http_error: 403",
        "when it is unblocked: `holdfast task unblock work && holdfast task resume work`",
    ]
    assert "\n".join(block_report("work", record)) in handoff("work", record)


def test_the_handoff_states_only_known_facts() -> None:
    record = changes.block(begun(), BY, "no key", "a key").record
    assert len(list(block_report("work", record))) == 3
    assert list(block_report("work", changes.unblock(record, BY).record)) == []


def test_the_command_is_safe_to_copy() -> None:
    assert resume_command("a b;c") == "holdfast task unblock 'a b;c' && holdfast task resume 'a b;c'"
