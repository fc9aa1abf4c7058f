"""Sessions that were rewound: their work after that point is an earlier life of theirs.

So are a home's records of a session that had left it and comes back.

Journal entries are numbered from the point gone back to, so the entries of the old life get an id of their
own. `lives` in the session's details lists these; `life` in the details of a snapshot is the life it was
taken in, if not the present one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.errors import SessionExists
from holdfast.runtime.store import quotas, schema
from holdfast.runtime.store.row_details import SessionDetails, SnapshotDetails
from holdfast.runtime.store.timelines import Branch

if TYPE_CHECKING:
    from holdfast.runtime.store.database import Database
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow
    from holdfast.runtime.store.statements import Statements


class Lives:
    """Starts new lives of sessions, each in one step."""

    def __init__(self, database: Database) -> None:
        self._writing, self._folder = database.writing, database.folder

    def begin(self, session: SessionRow, snapshot: SnapshotRow, columns: Mapping[str, Any]) -> str:
        """Begin a session's new life, from a snapshot; return the id of the old one.

        Args:
            session: its old row.
            snapshot: the snapshot it goes back to.
            columns: columns of the session in its new life.
        """
        old, now = ids.new_id(), time.time()
        with self._writing() as db:
            self._leave(db, session.id, old)
            branch = self._branch(db, snapshot, now)
            if branch is not None:
                values = {
                    "parent_session_id": branch.parent,
                    "position": branch.position,
                    "at": branch.at,
                    "snapshot_id": snapshot.id,
                }
                db.insert(schema.BRANCHES, {"session_id": session.id, **values})
            (found,) = db.rows(schema.SESSIONS, "WHERE id = ?", session.id, only=("details",))
            kept = SessionDetails(found["details"])
            position = branch.position if branch else 0
            details = kept.plus(
                lives=[*kept.lives, {"id": old, "generation": session.generation, "left_at": now}],
                rewound={"at": now, "snapshot": snapshot.id, "position": position},
            )
            db.update(schema.SESSIONS, {**columns, "details": details}, "id = ?", session.id)
        return old

    def come_back(self, session_id: str, columns: Mapping[str, Any], details: SessionDetails) -> None:
        """Begin a new life of a session that was removed here, because it comes back from elsewhere.

        Args:
            session_id: its id; its row stays the same one.
            columns: columns of the session in its new life; among them its state.
            details: its details in it; of those before, where it has moved and its lives stay.

        Raises:
            SessionExists: it is here already, or its name is taken.
            QuotaReached: that is more than the quota of the home.
        """
        old = ids.new_id()
        try:
            with self._writing() as db:
                (row,) = db.rows(schema.SESSIONS, "WHERE id = ?", session_id)
                if row["state"] != "removed":
                    raise SessionExists(f"cannot take in session {session_id}: it is here already")
                self._leave(db, session_id, old)
                before = SessionDetails(row["details"])
                left = {"id": old, "generation": row["generation"], "left_at": time.time()}
                kept = details.plus(lives=[*before.lives, left], moved=before.get("moved"))
                db.update(schema.SESSIONS, {**columns, "details": kept}, "id = ?", session_id)
                quotas.check(db, self._folder, str(details.get("by") or ""))
        except sqlite3.IntegrityError:
            name = columns["name"]
            raise SessionExists(f"cannot name session '{name}': the name is taken") from None

    def _leave(self, db: Statements, session_id: str, old: str) -> None:
        for table in (schema.ENTRIES, schema.BRANCHES):
            db.update(table, {"session_id": old}, "session_id = ?", session_id)
        db.update(schema.BRANCHES, {"parent_session_id": old}, "parent_session_id = ?", session_id)
        mine = ("id", "details")
        for row in list(db.rows(schema.SNAPSHOTS, "WHERE session_id = ?", session_id, only=mine)):
            kept = SnapshotDetails(row["details"])
            if kept.life is None:
                db.update(schema.SNAPSHOTS, {"details": kept.plus(life=old)}, "id = ?", row["id"])

    def _branch(self, db: Statements, snapshot: SnapshotRow, now: float) -> Branch | None:
        """Return where the new life branches off; None if the snapshot does not say."""
        (row,) = db.rows(schema.SNAPSHOTS, "WHERE id = ?", snapshot.id, only=("details",))
        details = SnapshotDetails(row["details"])
        seq, at = details.moment.journal_seq, details.moment.at
        parent = details.life or snapshot.session_id
        return None if seq is None else Branch(parent, seq, now if at is None else at)
