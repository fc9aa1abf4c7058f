"""Operations that ended: kept for a while, so that people can see what happened."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, delete, func, select

from holdfast.runtime.store import schema

if TYPE_CHECKING:
    from holdfast.runtime.store.database import Database


class History:
    """What the store knows of operations that ended."""

    def __init__(self, database: Database) -> None:
        self._reading = database.reading
        self._writing = database.writing

    def count(self, before: datetime) -> int:
        """How many ended before a time."""
        with self._reading() as db:
            found = db.execute(select(func.count()).select_from(schema.operations).where(_ended(before)))
            return int(found.scalar_one())

    def forget(self, before: datetime) -> None:
        """Delete those that ended before a time."""
        with self._writing() as db:
            db.execute(delete(schema.operations).where(_ended(before)))


def _ended(before: datetime) -> ColumnElement[bool]:
    table = schema.operations
    return (table.c.state != "intent") & (table.c.ended_at < before)
