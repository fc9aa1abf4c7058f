"""Closes the gap in the lineage that a snapshot leaves, in the transaction that deletes its row.

Snapshots have a parent, and get the parent of theirs. A session's `parent_snapshot_id` says what its
container was made from, which stays true; what it comes after is then kept in its details.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, select, update

from holdfast.runtime.store import schema
from holdfast.runtime.store.row_details import SessionDetails

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.runtime.store.rows import SessionRow


def close_gap(db: Connection, snapshot_id: str) -> None:
    """Let what comes after a snapshot come after the one before it."""
    sessions, snapshots = schema.sessions, schema.snapshots
    found = db.execute(select(snapshots.c.parent_snapshot_id).where(snapshots.c.id == snapshot_id)).first()
    if found is None:
        return
    above = found.parent_snapshot_id
    children = update(snapshots).where(snapshots.c.parent_snapshot_id == snapshot_id)
    db.execute(children.values(parent_snapshot_id=above))
    columns = select(sessions.c.id, sessions.c.parent_snapshot_id, sessions.c.details)
    for row in db.execute(columns.where(sessions.c.parent_snapshot_id.is_not(None))).all():
        details = SessionDetails(row.details or {})
        if snapshot_id in (row.parent_snapshot_id, details.ancestor):
            changed = details.plus(ancestor=above)
            db.execute(update(sessions).where(sessions.c.id == row.id).values(details=changed))


def of_session(session: SessionRow, known: Collection[str]) -> str | None:
    """The snapshot a session comes after: what it was made from, or the nearest before it that is there."""
    if session.parent_snapshot_id in known:
        return session.parent_snapshot_id
    ancestor = session.details.ancestor
    return ancestor if ancestor in known else None
