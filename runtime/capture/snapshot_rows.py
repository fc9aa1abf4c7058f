"""The row of a snapshot in the store: recorded before it is taken, made valid once it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.runtime.history.lineage import family
from holdfast.runtime.journal import host_events
from holdfast.runtime.store.row_details import SnapshotDetails

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotKind, SnapshotRow
    from holdfast.runtime.store.store import Store
    from holdfast.snapshots.failure import Failure


def new_row(
    context: Context,
    session: SessionRow,
    snapshot_id: str,
    label: str | None,
    kind: SnapshotKind,
    reason: str | None = None,
    auto: Mapping[str, Any] | None = None,
    failure: Failure | None = None,
) -> SnapshotRow:
    """Record a snapshot that is about to be taken; return its row."""
    return context.store.add_snapshot(
        session.id,
        kind,
        label=label,
        snapshot_id=snapshot_id,
        parent_snapshot_id=_comes_after(context.store, session),
        details=SnapshotDetails.of(
            generation=session.generation,
            actor=context.actor,
            auto=dict(auto) if auto else None,
            failure=failure.as_details() if failure else None,
        ),
        reason=reason or context.reason,
    )


def complete(
    context: Context, session: SessionRow, operation_id: str, snapshot_id: str, ready: Mapping[str, Any]
) -> SnapshotRow:
    """Make a snapshot valid and enter it in the session's journal, in one transaction; return its row.

    The journal was copied up to the snapshot's moment before.
    """
    with context.store.together():
        context.store.operations.complete(operation_id, snapshots={snapshot_id: ready})
        row = context.store.snapshot(snapshot_id)
        host_events.taken(context, session, row, copied=True)
    return row


def _comes_after(store: Store, session: SessionRow) -> str | None:
    latest = store.latest_snapshot(session.id)
    if latest is not None and family.continues(session, latest):
        return latest.id
    return family.parent_of_next(session, store.snapshots())
