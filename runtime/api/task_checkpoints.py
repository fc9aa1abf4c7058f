"""The checkpoints of a task: what the next one is called, where to return to, and what has changed since.

It decides, and takes or restores no snapshot. Where Git repositories stand is kept beside the snapshot.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from holdfast.errors import GuestError, HoldfastError, InvalidArgument, SessionError
from holdfast.runtime.api import session_repositories
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.lineage import family
from holdfast.runtime.history.repositories import repository_state

if TYPE_CHECKING:
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.api.session_insight import SessionInsight
    from holdfast.runtime.history.drift.drift_result import Drift
    from holdfast.runtime.history.repositories.repository_state import RepositoriesSeen, RepositoryChange
    from holdfast.runtime.operations.context import Context
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

    The one of the checkpoint may have been removed, never taken, or be another session's, whose record was
    imported: then it is the session's last.

    Raises:
        SessionError: there is none.
    """
    chosen = record.checkpoint.snapshot if record.checkpoint is not None else None
    snapshots = store.snapshots()
    if any(row.name == chosen and family.includes(session, row, snapshots) for row in snapshots):
        return str(chosen)
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
    checkpoint = record.checkpoint.snapshot if record.checkpoint is not None else None
    for since in (checkpoint, f"{age}s"):
        with suppress(InvalidArgument, GuestError, SessionError):
            if since is not None:
                return insight.drift(since)
    return None


def repositories(
    context: Context, files: SessionFiles, session_id: str, before: RepositoriesSeen | None = None
) -> RepositoriesSeen | None:
    """Return where the Git repositories of a session stand, around the shell or where others were seen
    before; None if it does not answer.
    """
    client = GuestClient(context.home.run_dir(session_id))
    place, found = (None, ()) if before is None else (before.place, before.found)
    try:
        return session_repositories.look(files, client, place, [each.path for each in found])
    except (HoldfastError, OSError):
        return None


def moved_repositories(
    context: Context, files: SessionFiles, session_id: str, record: TaskRecord
) -> tuple[RepositoryChange, ...]:
    """Return the repositories that stand elsewhere than at the checkpoint; none if that is not known."""
    if record.checkpoint is None:
        return ()
    label = record.checkpoint.snapshot
    row = next((row for row in context.store.snapshots() if label in (row.label, row.id)), None)
    before = None if row is None else repository_state.parse(row.details.repositories)
    now = None if before is None else repositories(context, files, session_id, before)
    return () if before is None or now is None else repository_state.changes(before.found, now.found)
