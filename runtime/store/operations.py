"""Operations: a process's intentions for sessions and snapshots, until they are done or undone.

Knows nothing of how operations are undone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.runtime.store import owner, schema
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind, OperationRow, columns

if TYPE_CHECKING:
    from holdfast.runtime.store.database import Database
    from holdfast.runtime.store.rows import OperationState
    from holdfast.runtime.store.statements import Row


_ENDED = "state != 'intent' AND ended_at < ?"


class Operations:
    """The operations of one home."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(
        self,
        kind: OperationKind,
        *,
        session_id: str | None = None,
        snapshot_id: str | None = None,
        details: OperationDetails | None = None,
    ) -> OperationRow:
        """Record this process's intention to make changes that possibly have to be undone."""
        row = OperationRow(
            id=ids.new_id(),
            kind=kind,
            state="intent",
            owner_pid=os.getpid(),
            owner_start=owner.start_of(os.getpid()) or "",
            started_at=datetime.now(UTC),
            session_id=session_id,
            snapshot_id=snapshot_id,
            details=details or OperationDetails(),
        )
        with self._db.writing() as db:
            db.insert(schema.OPERATIONS, columns(row))
        return row

    def update(self, operation_id: str, **changes: Any) -> OperationRow:
        """Change session_id, snapshot_id or details of an operation in progress."""
        with self._db.writing() as db:
            db.update(schema.OPERATIONS, changes, "id = ?", operation_id)
            (row,) = db.rows(schema.OPERATIONS, "WHERE id = ?", operation_id)
            return _operation(row)

    def complete(
        self,
        operation_id: str,
        *,
        sessions: Mapping[str, Mapping[str, Any]] | None = None,
        snapshots: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Make an operation's results valid and end it, in one step: from here on there is nothing to undo.

        Args:
            operation_id: an operation in progress.
            sessions: columns to change, by the session's id.
            snapshots: columns to change, by the snapshot's id.
        """
        with self._db.writing() as db:
            for table, changed in ((schema.SESSIONS, sessions), (schema.SNAPSHOTS, snapshots)):
                for row_id, columns in (changed or {}).items():
                    db.update(table, columns, "id = ?", row_id)
            ended = {"state": "done", "ended_at": datetime.now(UTC)}
            db.update(schema.OPERATIONS, ended, "id = ?", operation_id)

    def end(self, operation_id: str, state: OperationState) -> None:
        """Record that an operation is done, or failed and was undone; an ended one stays unchanged."""
        ended = {"state": state, "ended_at": datetime.now(UTC)}
        with self._db.writing() as db:
            db.update(schema.OPERATIONS, ended, "id = ? AND state = 'intent'", operation_id)

    def count_ended(self, before: datetime) -> int:
        """Count the operations that ended before a time: they are kept for a while, for people."""
        with self._db.reading() as db:
            query = f"SELECT COUNT(*) FROM operations WHERE {_ENDED}"  # noqa: S608 - of this module
            return int(db.value(query, *schema.OPERATIONS.stored({"ended_at": before}).values()))

    def forget_ended(self, before: datetime) -> None:
        """Delete operations that ended before a time."""
        with self._db.writing() as db:
            db.delete(schema.OPERATIONS, _ENDED, *schema.OPERATIONS.stored({"ended_at": before}).values())

    def open(self) -> list[OperationRow]:
        """Return operations that have neither ended nor been undone, oldest first."""
        return self._db.rows(_operation, schema.OPERATIONS, "WHERE state = 'intent' ORDER BY started_at")


def _operation(row: Row) -> OperationRow:
    typed = {"kind": OperationKind(row["kind"]), "details": OperationDetails(row["details"])}
    return OperationRow(**{**row, **typed})
