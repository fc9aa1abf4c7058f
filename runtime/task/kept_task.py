"""The task record in a session's row: read, changed in one transaction, and audited.

Any number of processes can change it: each change is made of the record as it is then. The audit trail is the
session's journal, which outlives the session.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.errors import SessionNotFound
from holdfast.runtime.journal import host_events
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.task import task_form
from holdfast.runtime.task.step_rules import ENDED
from holdfast.runtime.task.task_changes import Stamp, TaskChange
from holdfast.runtime.task.task_record import TaskRecord

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

How = Callable[[TaskRecord | None, Stamp], TaskChange]
"""A change of `task_changes`, with its arguments but for the first two."""


def of(row: SessionRow) -> TaskRecord | None:
    """Return the record of a session; None if it has none.

    Raises:
        InvalidArgument: a newer version wrote it, or it is damaged.
    """
    found = row.details.task
    return None if found is None else task_form.load(found)


def next_step(record: TaskRecord) -> str | None:
    """Return the first unfinished step with its title; None if there is none."""
    waiting = (f"{number} {step.title}" for number, step in record.steps() if step.status not in ENDED)
    return next(waiting, None)


def change(context: Context, session_id: str, how: How) -> TaskRecord:
    """Change the record of a session, and write that into its journal.

    Raises:
        InvalidArgument: the change is not possible; the record is as it was.
        SessionNotFound: the session was removed.
    """
    made: list[TaskChange] = []
    stamp = Stamp(context.actor, datetime.now(UTC))

    def changed(found: Any) -> dict[str, Any]:
        made.append(how(None if found is None else task_form.load(found), stamp))
        return task_form.dump(made[-1].record)

    if context.store.find_session(session_id) is None:
        raise SessionNotFound(f"cannot change the task of session {session_id}: it was removed")
    mirror(context.store, context.home, session_id)  # the entry comes after what the session did before
    with context.store.together():
        context.store.change_detail(session_id, "task", changed)
        host_events.note(
            context,
            session_id,
            "task_changed",
            position=context.store.entries.last(session_id),
            what=made[-1].line,
            revision=made[-1].record.revision,
            next_step=next_step(made[-1].record),
            **made[-1].facts,
        )
    return made[-1].record
