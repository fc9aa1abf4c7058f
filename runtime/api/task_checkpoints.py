"""The checkpoints of a task: what the next one is called, where to return to, and what has changed since.

It decides, and takes or restores no snapshot.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from holdfast.errors import GuestError, InvalidArgument, SessionError

if TYPE_CHECKING:
    from holdfast.runtime.api.session_insight import SessionInsight
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store
    from holdfast.runtime.task.task_record import TaskRecord

LONGEST_STEM = 50
"""Characters of a session's name in the label of a checkpoint, so that the number has room."""


def free_label(store: Store, session: str, first: int) -> str:
    """Return a label for the next checkpoint, with a number from `first` on.

    After a rewind the revisions that follow have had their checkpoints.
    """
    taken = {row.label for row in store.snapshots(pending=True)}
    names = (f"{session[:LONGEST_STEM]}-{number}" for number in count(first))
    return next(name for name in names if name not in taken)


def to_return_to(store: Store, session: SessionRow, record: TaskRecord) -> str:
    """Return the snapshot from which a dead session can continue its task.

    The one of the checkpoint may have been removed, or never taken: then it is the session's last.

    Raises:
        SessionError: there is none.
    """
    chosen = record.checkpoint.snapshot if record.checkpoint is not None else None
    if chosen is not None and chosen in {row.name for row in store.snapshots()}:
        return chosen
    latest = store.latest_snapshot(session.id)
    if latest is None:
        raise SessionError(
            f"cannot resume the task of session {session.name}: it is dead and has no snapshot",
            hint="`holdfast task show` has its record; `task import` it into another session",
        )
    return latest.id


def drift(insight: SessionInsight, record: TaskRecord) -> Drift | None:
    """Return what has changed in a session since the checkpoint, or else since the record was changed.

    None if that cannot be known, for instance because the snapshot has no baseline.
    """
    age = int((datetime.now(UTC) - record.updated).total_seconds()) + 1
    since = record.checkpoint.snapshot if record.checkpoint is not None else f"{age}s"
    try:
        return insight.drift(since)
    except (InvalidArgument, GuestError, SessionError):
        return None
