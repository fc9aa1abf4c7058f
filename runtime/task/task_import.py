"""Imports a whole record from a file or a session, within limits on its changes and claims.  Pure.

Two people, or an agent and a person, change one record: an export that is edited for an hour lacks the
changes made since. So nothing is lost silently, and a tick is not a verification.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task.step_rules import verification
from holdfast.runtime.task.task_changes import Stamp, TaskChange, changed, with_fields
from holdfast.runtime.task.task_record import TaskRecord, TaskStep

_ITEMS = ("decisions", "alternatives", "questions", "risks", "files", "artifacts", "notes")
_SINGULAR = {"decisions": "decision", "questions": "question", "risks": "risk", "files": "file to read again"}
_SINGULAR |= {"artifacts": "artifact", "notes": "note", "alternatives": "path not taken"}
_CLOCKS_DIFFER = timedelta(days=1)
"""How far in the future a time may be: clocks of two machines differ, and not by more."""
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_NAMED = 3
"""How many of the things that would go are quoted."""


def imported(
    record: TaskRecord | None,
    stamp: Stamp,
    other: TaskRecord,
    *,
    replace: bool = False,
    last_entry: int | None = None,
) -> TaskChange:
    """Replace the present record by a whole record from a file or a different session.

    A step that arrives as done, is verified by a command and has no evidence is active: its author
    only says that it is done. It stays done if the present record has it so.

    Args:
        record: the present record.
        stamp: who takes it over.
        other: the one to take over.
        replace: take it even if it lacks what is recorded.
        last_entry: the number of the last entry of the session's journal; None if that is not known.

    Raises:
        InvalidArgument: it has times that cannot be, or evidence that this journal does not have, though it
            is of the same task; or it is older than the present record or of another task, and lacks
            something that is recorded there; `replace` takes it all the same.
    """
    _check_times(other, stamp.at)
    if record is not None and other.goal == record.goal and last_entry is not None:
        _check_entries(other, last_entry)
    gone = [] if record is None else list(lacking(record, other))
    if record is not None and gone and not replace:
        if other.goal != record.goal:
            raise _refused("it belongs to a different task; the present task has", gone)
        if other.revision < record.revision:
            was = (
                f"it is revision {other.revision}; up to the present one, {record.revision}, "
                "these were added:"
            )
            raise _refused(was, gone)
    taken, said = _unverified_opened(record, other)
    revision = max(record.revision if record else 0, other.revision)
    line = f"imported: {other.goal}"
    line += f"; said to be done, and not verified: {', '.join(said)}" if said else ""
    line += f"; gone: {quoted(gone)}" if gone else ""
    return changed(with_fields(taken, revision=revision), stamp, plain(line, 500))


def _check_times(other: TaskRecord, now: datetime) -> None:
    signed = [each for name in _ITEMS for each in getattr(other, name) if hasattr(each, "at")]
    tried = [each for _, step in other.steps() for each in step.attempts]
    single = [part for part in (other.blocked, other.checkpoint) if part is not None]
    for moment in (other.updated, *(each.at for each in (*signed, *tried, *single))):
        if not _EARLIEST <= moment <= now + _CLOCKS_DIFFER:
            raise InvalidArgument(
                f"cannot import the task record: it has the time {moment:%Y-%m-%d %H:%M}, which cannot be",
                hint="nothing was changed; leave the time out, or correct it",
            )


def _check_entries(other: TaskRecord, last: int) -> None:
    for number, step in other.steps():
        for entry in (step.evidence, *(each.entry for each in step.attempts)):
            if entry is not None and int(entry.removeprefix("#")) > last:
                raise InvalidArgument(
                    f"cannot import the task record: step {number} refers to {entry}, "
                    f"and the journal ends at #{last}",
                    hint="nothing was changed; `holdfast task done` verifies a step",
                )


def lacking(record: TaskRecord, other: TaskRecord) -> Iterator[str]:
    """Yield the parts of a record that a second one lacks, in a reader's words."""
    for name in _ITEMS:
        kept = {_key(each) for each in getattr(other, name)}
        for each in getattr(record, name):
            if _key(each) not in kept:
                yield f"{_SINGULAR[name]} '{plain(_key(each), 60)}'"
    there = {(phase.title, step.title): step for phase in other.phases for step in phase.steps}
    for phase in record.phases:
        for step in phase.steps:
            found = there.get((phase.title, step.title))
            if step.tries and (found is None or found.tries < step.tries):
                yield f"attempts of step '{plain(step.title, 60)}'"
            elif step.status == "done" and (found is None or found.status != "done"):
                yield f"step '{plain(step.title, 60)}' being done"
    if record.blocked is not None and other.blocked is None:
        yield "what blocks it"


def _key(item: Any) -> str:
    return str(next(iter(item.model_dump().values())))


def _unverified_opened(record: TaskRecord | None, other: TaskRecord) -> tuple[TaskRecord, list[str]]:
    """Return the record with unverified done steps made active, and their numbers."""
    proved = {
        (phase.title, step.title)
        for phase in (record.phases if record is not None else ())
        for step in phase.steps
        if step.status == "done"
    }
    said: list[str] = []

    def judged(phase: str, number: str, step: TaskStep) -> TaskStep:
        claimed = step.status == "done" and step.evidence is None and verification(other, step) is not None
        if not claimed or (phase, step.title) in proved:
            return step
        said.append(number)
        return with_fields(step, status="active")

    phases = tuple(
        with_fields(
            phase,
            steps=tuple(
                judged(phase.title, f"{major}.{minor}", step)
                for minor, step in enumerate(phase.steps, start=1)
            ),
        )
        for major, phase in enumerate(other.phases, start=1)
    )
    return with_fields(other, phases=phases), said


def _refused(why: str, gone: list[str]) -> InvalidArgument:
    return InvalidArgument(
        f"cannot import the task record: {why} {quoted(gone)}",
        hint="export it again and repeat the edit; `--replace` imports it anyway",
    )


def quoted(gone: Sequence[str]) -> str:
    """Return the first of these items, and the number of the others."""
    more = len(gone) - _NAMED
    return ", ".join(gone[:_NAMED]) + (f" and {more} more" if more > 0 else "")
