"""Operations: what a process intends to do with sessions and snapshots, until it is done or undone.

Knows nothing of how operations are undone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Row, delete, func, insert, select, update

from holdfast.base import ids
from holdfast.runtime.store import owner, schema
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind, OperationRow, columns

if TYPE_CHECKING:
    from holdfast.runtime.store.database import Database
    from holdfast.runtime.store.rows import OperationState


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
        """Record the intent of this process to do something that may have to be undone."""
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
            db.execute(insert(schema.operations).values(**columns(row)))
        return row

    def update(self, operation_id: str, **changes: Any) -> OperationRow:
        """Change session_id, snapshot_id or details of an operation in progress."""
        table = schema.operations
        with self._db.writing() as db:
            db.execute(update(table).where(table.c.id == operation_id).values(**changes))
            return _operation(db.execute(select(table).where(table.c.id == operation_id)).one())

    def complete(
        self,
        operation_id: str,
        *,
        sessions: Mapping[str, Mapping[str, Any]] | None = None,
        snapshots: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Make what an operation made valid and end it, in one step: from here on there is nothing to undo.

        Args:
            operation_id: an operation in progress.
            sessions: columns to change, by the session's id.
            snapshots: columns to change, by the snapshot's id.
        """
        table = schema.operations
        with self._db.writing() as db:
            for rows, changed in ((schema.sessions, sessions), (schema.snapshots, snapshots)):
                for row_id, columns in (changed or {}).items():
                    db.execute(update(rows).where(rows.c.id == row_id).values(**columns))
            ended = update(table).where(table.c.id == operation_id)
            db.execute(ended.values(state="done", ended_at=datetime.now(UTC)))

    def end(self, operation_id: str, state: OperationState) -> None:
        """Record that an operation is done, or failed and was undone; an ended one stays unchanged."""
        table = schema.operations
        with self._db.writing() as db:
            ended = update(table).where((table.c.id == operation_id) & (table.c.state == "intent"))
            db.execute(ended.values(state=state, ended_at=datetime.now(UTC)))

    def count_ended(self, before: datetime) -> int:
        """Count the operations that ended before a time: they are kept for a while, for people."""
        with self._db.reading() as db:
            found = db.execute(select(func.count()).select_from(schema.operations).where(_ended(before)))
            return int(found.scalar_one())

    def forget_ended(self, before: datetime) -> None:
        """Delete operations that ended before a time."""
        with self._db.writing() as db:
            db.execute(delete(schema.operations).where(_ended(before)))

    def open(self) -> list[OperationRow]:
        """Return operations that have neither ended nor been undone, oldest first."""
        table = schema.operations
        query = select(table).where(table.c.state == "intent").order_by(table.c.started_at)
        return self._db.rows(query, _operation)


def _ended(before: datetime) -> ColumnElement[bool]:
    table = schema.operations
    return (table.c.state != "intent") & (table.c.ended_at < before)


def _operation(row: Row[Any]) -> OperationRow:
    typed = {"kind": OperationKind(row.kind), "details": OperationDetails(row.details)}
    return OperationRow(**{**row._mapping, **typed})
