"""The details of a session, which several parts write: each its own keys, without losing another's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from holdfast.runtime.store import schema

if TYPE_CHECKING:
    from holdfast.runtime.store.database import Database


def keep(database: Database, session_id: str, changes: Mapping[str, Any]) -> None:
    """Change some of them, in one step; None drops one. A session that is not there is passed over."""
    table = schema.sessions
    with database.writing() as db:
        row = db.execute(select(table.c.details).where(table.c.id == session_id)).first()
        if row is not None:
            kept = {key: value for key, value in {**row.details, **changes}.items() if value is not None}
            db.execute(update(table).where(table.c.id == session_id).values(details=kept))


def change(database: Database, session_id: str, key: str, how: Callable[[Any], Any]) -> None:
    """Change one of them by what it is (None if it is not there), in one step. As `keep` otherwise."""
    table = schema.sessions
    with database.writing() as db:
        row = db.execute(select(table.c.details).where(table.c.id == session_id)).first()
        if row is not None:
            kept = {**row.details, key: how(row.details.get(key))}
            db.execute(update(table).where(table.c.id == session_id).values(details=kept))
