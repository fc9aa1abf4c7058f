"""The report of a blocked task: the blocker, and the command that continues once it is removed.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.base.suggestion import command
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord


def resume_command(session: str) -> str:
    """Return the command that unblocks a task, wakes its session, and shows the record and the drift."""
    return f"{command('task', 'unblock', session)} && {command('task', 'resume', session)}"


def block_report(session: str, record: TaskRecord) -> Iterator[str]:
    """Yield the lines of the report: the blocker, evidence, attempts, needs, and how to continue.

    Args:
        session: its name.
        record: its record; nothing is reported if nothing blocks it.
    """
    block = record.blocked
    if block is None:
        return
    yield f"BLOCKED: {block.why}. Needs: {block.needs}"
    yield f"since {block.at:%Y-%m-%d %H:%M} UTC, recorded by {block.by}"
    step = next((each for number, each in record.steps() if number == block.step), None)
    if step is not None:
        yield f"step: {block.step} {step.title}"
    if block.entry is not None:
        after = int(block.entry.removeprefix("#")) - 1
        yield f"evidence: {block.entry}, `{command('journal', session, '--since', str(after))}`"
    if block.tried is not None:
        yield f"tried: {block.tried}"
    if step is not None and step.attempts:
        yield f"attempts: {step.tries}, last {_attempt(step.attempts[-1])}"
    yield f"when it is unblocked: `{resume_command(session)}`"


def _attempt(made: StepAttempt) -> str:
    kind = f", {made.failure_type}: {made.failure_detail or ''}" if made.failure_type else ""
    return f"{made.entry} {made.outcome}{kind}"
