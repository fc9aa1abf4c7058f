"""The tables, and the version of their shape.

The version is kept in SQLite's user_version.  A change of shape adds a step to `MIGRATIONS`, never edits one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
)

VERSION = 1

metadata = MetaData()


class UtcTime(TypeDecorator[datetime]):
    """A moment, kept as ISO 8601 text in UTC, so that it reads the same in any tool."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> str | None:
        """To the database."""
        return None if value is None else value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Any) -> datetime | None:
        """From the database."""
        return None if value is None else datetime.fromisoformat(value)


sessions = Table(
    "sessions",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("state", String, nullable=False),
    Column("image", String, nullable=False),
    Column("container_id", String),
    Column("parent_snapshot_id", String),
    Column("generation", Integer, nullable=False, default=0),
    Column("options", JSON, nullable=False, default=dict),
    Column("created_at", UtcTime, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", String, primary_key=True),
    Column("label", String),
    Column("kind", String, nullable=False),
    Column("state", String, nullable=False),
    Column("session_id", String, ForeignKey("sessions.id"), nullable=False),
    Column("parent_snapshot_id", String),
    Column("image_id", String),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("created_at", UtcTime, nullable=False),
    Column("details", JSON, nullable=False, default=dict),
)

operations = Table(
    "operations",
    metadata,
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("session_id", String),
    Column("snapshot_id", String),
    Column("state", String, nullable=False),
    Column("owner_pid", Integer, nullable=False),
    Column("owner_start", String, nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("details", JSON, nullable=False, default=dict),
)

# A name belongs to one session at a time; removed sessions keep theirs for the lineage.
Index(
    "session_name",
    sessions.c.name,
    unique=True,
    sqlite_where=sessions.c.state != "removed",
    postgresql_where=sessions.c.state != "removed",
)
Index("snapshot_label", snapshots.c.label, unique=True)
Index("operation_state", operations.c.state)
