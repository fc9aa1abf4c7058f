"""The actions that led to a snapshot: from the checkpoint before it, with their stated reasons and results.

It chooses where they begin and reads the journal; what the entries mean is decided in `task/stated_actions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.runtime.history.lineage import family
from holdfast.runtime.journal import journal_query
from holdfast.runtime.store.timelines import journal_of
from holdfast.runtime.task.stated_actions import StatedAction, stated_actions

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.entry import Entry
    from holdfast.runtime.store.rows import SnapshotRow
    from holdfast.runtime.store.store import Store


def up_to(context: Context, snapshot: SnapshotRow, since: str | None = None) -> list[StatedAction]:
    """Return the actions between an earlier snapshot and this one, the oldest first.

    Args:
        context: the home whose journals are read.
        snapshot: the one they led to.
        since: the earlier snapshot; by default the last checkpoint before it, or else the session's begin.

    Raises:
        InvalidArgument: `since` is no snapshot of its past.
        SnapshotNotFound: there is no snapshot `since`.
    """
    first = last_checkpoint(context.store, snapshot) if since is None else earlier(context, snapshot, since)
    return between(context, first, snapshot)


def between(context: Context, first: SnapshotRow | None, snapshot: SnapshotRow) -> list[StatedAction]:
    """Return the actions after a snapshot of its past, or from the session's begin on."""
    begin = None if first is None else first.details.moment
    after = 0 if begin is None else begin.journal_seq or 0
    return stated_actions(entries(context, snapshot), after, 0.0 if begin is None else begin.at or 0.0)


def entries(context: Context, snapshot: SnapshotRow) -> Iterator[Entry]:
    """Yield the entries of the journal up to a snapshot, in order."""
    last = snapshot.details.moment.journal_seq
    until = snapshot.details.moment.at or snapshot.created_at.timestamp()
    for entry in journal_query.read(context, journal_of(snapshot), journal_query.Filter()):
        if entry.at <= until if last is None or entry.host else entry.seq <= last:
            yield entry


def past(store: Store, snapshot: SnapshotRow) -> list[SnapshotRow]:
    """Return the snapshots before one in its lineage, the nearest first."""
    return family.ancestors(snapshot.id, store.snapshots())[1:]


def last_checkpoint(store: Store, snapshot: SnapshotRow) -> SnapshotRow | None:
    """Return the last snapshot before one that was taken as a checkpoint of the task, if there is one."""
    return next((row for row in past(store, snapshot) if _is_checkpoint(row)), None)


def earlier(context: Context, snapshot: SnapshotRow, ref: str) -> SnapshotRow:
    """Return the snapshot that `ref` names, which must be of the other's past.

    Raises:
        InvalidArgument: it is not.
        SnapshotNotFound: there is no such snapshot.
    """
    named = context.store.snapshot(ref)
    if named.id not in {row.id for row in past(context.store, snapshot)}:
        raise InvalidArgument(
            f"cannot begin at snapshot {named.name}: it is not of the past of {snapshot.name}",
            hint="`holdfast snapshots --tree` shows what is",
        )
    return named


def _is_checkpoint(row: SnapshotRow) -> bool:
    # The record in a snapshot is of its instant: that of a checkpoint names the snapshot itself.
    kept = (row.details.task or {}).get("checkpoint")
    return isinstance(kept, dict) and kept.get("snapshot") in (row.label, row.id)
