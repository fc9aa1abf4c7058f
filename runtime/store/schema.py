"""The tables, and the version of their schema.

The version is stored in SQLite's user_version. A change adds a step to `MIGRATIONS`, and never edits one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

VERSION = 5
REACHED_FROM = 4
"""Sessions that run when an older database is opened cannot be reached; the version that made them can."""

metadata = MetaData()


class UtcTime(TypeDecorator[datetime]):
    """A time, stored as ISO 8601 text in UTC, so that it reads the same in any tool."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> str | None:
        """Convert for the database."""
        return None if value is None else value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Any) -> datetime | None:
        """Convert from the database."""
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
    Column("details", JSON, nullable=False, default=dict, server_default="{}"),
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
    Column("pinned", Boolean, nullable=False, default=False, server_default="0"),
    Column("reason", Text),
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

# Of journals: what sessions wrote down, numbered by themselves, and what this host did (`host`), with the
# number of the session's entry before it.
entries = Table(
    "entries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session_id", String, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("host", Boolean, nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("actor", String),
    Column("body", Text, nullable=False),
)

# Where sessions that were restored branched off.
branches = Table(
    "branches",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("parent_session_id", String, nullable=False),
    Column("snapshot_id", String, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("at", Float, nullable=False),
)

Index("entry_place", entries.c.session_id, entries.c.host, entries.c.seq)

# Containers that are ready for sessions of future callers. `digest` names what they were made with.
waiting = Table(
    "waiting",
    metadata,
    Column("id", String, primary_key=True),
    Column("digest", String, nullable=False),
    Column("image", String, nullable=False),
    Column("options", JSON, nullable=False),
    Column("kernel", Boolean, nullable=False),
    Column("container_id", String, nullable=False),
    Column("init_pid", Integer, nullable=False),
    Column("init_start", String, nullable=False),
    Column("made_at", UtcTime, nullable=False),
)

# A name belongs to one session at a time; removed sessions keep theirs for the lineage.
Index(
    "session_name",
    sessions.c.name,
    unique=True,
    sqlite_where=sessions.c.state != "removed",
)
Index("snapshot_session", snapshots.c.session_id)
Index("snapshot_label", snapshots.c.label, unique=True)
Index("operation_state", operations.c.state)

MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: (
        "CREATE TABLE entries (id INTEGER NOT NULL, session_id VARCHAR NOT NULL, seq BIGINT NOT NULL, "
        "host BOOLEAN NOT NULL, at FLOAT NOT NULL, kind VARCHAR NOT NULL, actor VARCHAR, body TEXT NOT NULL, "
        "PRIMARY KEY (id))",
        "CREATE TABLE branches (session_id VARCHAR NOT NULL, parent_session_id VARCHAR NOT NULL, "
        "snapshot_id VARCHAR NOT NULL, position BIGINT NOT NULL, at FLOAT NOT NULL, "
        "PRIMARY KEY (session_id))",
        "CREATE INDEX entry_place ON entries (session_id, host, seq)",
    ),
    2: (
        "ALTER TABLE sessions ADD COLUMN details JSON DEFAULT '{}' NOT NULL",
        "ALTER TABLE snapshots ADD COLUMN pinned BOOLEAN DEFAULT '0' NOT NULL",
        "ALTER TABLE snapshots ADD COLUMN reason TEXT",
    ),
    # Also a mark for older versions, which would not find the folders of sessions where they are now; nor
    # does this one reach the containers that they left running.
    3: (
        "CREATE INDEX snapshot_session ON snapshots (session_id)",
        "UPDATE sessions SET details = json_set(details, '$.of_older', container_id) "
        "WHERE state = 'running' AND container_id IS NOT NULL",
    ),
    4: (
        "CREATE TABLE waiting (id VARCHAR NOT NULL, digest VARCHAR NOT NULL, image VARCHAR NOT NULL, "
        "options JSON NOT NULL, kernel BOOLEAN NOT NULL, container_id VARCHAR NOT NULL, "
        "init_pid INTEGER NOT NULL, init_start VARCHAR NOT NULL, made_at VARCHAR NOT NULL, "
        "PRIMARY KEY (id))",
    ),
}
"""What makes a database of one version one of the next."""
