"""The tables, the forms of their values, and the version of their schema.

The version is stored in SQLite's user_version. A change adds a step to `MIGRATIONS`, and never edits one.
Pure: `database` reads and writes.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from holdfast.base.value_classes import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

VERSION = 5
REACHED_FROM = 4
"""Sessions that run when an older database is opened cannot be reached; the version that made them can."""

_TYPES = {"text": "VARCHAR", "long": "TEXT", "integer": "INTEGER", "big": "BIGINT", "real": "FLOAT"}
_TYPES |= {"flag": "BOOLEAN", "time": "VARCHAR", "json": "JSON"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: one of `text`, `long`, `integer`, `big`, `real`, `flag`, `time` and `json`.

    A `time` is ISO 8601 text in UTC, so that it reads the same in any tool. `default` is the value in rows
    that are older than the column.
    """

    name: str
    form: str
    nullable: bool = False
    default: str | None = None

    def definition(self) -> str:
        """Return the definition of the column in SQL."""
        default = "" if self.default is None else f" DEFAULT '{self.default}'"
        return f"{self.name} {_TYPES[self.form]}{default}{'' if self.nullable else ' NOT NULL'}"


class StoreTable:
    """A table: its columns by name, in their order, and the name of its key."""

    def __init__(self, name: str, key: str, columns: Iterable[Column], constraint: str = "") -> None:
        self.name = name
        self.key = key
        self.columns = {column.name: column for column in columns}
        self._constraint = constraint

    def definition(self) -> str:
        """Return the statement that makes the table unless it is there."""
        parts = [*(column.definition() for column in self.columns.values()), f"PRIMARY KEY ({self.key})"]
        parts += [self._constraint] if self._constraint else []
        return f"CREATE TABLE IF NOT EXISTS {self.name} (\n\t" + ", \n\t".join(parts) + "\n)"

    def stored(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by column in the database's form."""
        return {name: _STORED.get(self.columns[name].form, _same)(value) for name, value in values.items()}

    def reader(self, names: Iterable[str]) -> Callable[[Iterable[Any]], dict[str, Any]]:
        """Return a function that makes values by column of a row of these columns.

        It raises ValueError or TypeError if one is damaged.
        """
        readers = [(name, _READ.get(self.columns[name].form, _same)) for name in names]

        def read(row: Iterable[Any]) -> dict[str, Any]:
            return {name: how(value) for (name, how), value in zip(readers, row, strict=True)}

        return read


def _same(value: Any) -> Any:
    return value


def _stored_time(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat(timespec="microseconds")


def _read_time(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


_STORED: Mapping[str, Callable[[Any], Any]] = {"time": _stored_time, "json": json.dumps}
_READ: Mapping[str, Callable[[Any], Any]] = {"time": _read_time, "json": json.loads, "flag": bool}

SESSIONS = StoreTable(
    "sessions",
    "id",
    (
        Column("id", "text"),
        Column("name", "text"),
        Column("state", "text"),
        Column("image", "text"),
        Column("container_id", "text", nullable=True),
        Column("parent_snapshot_id", "text", nullable=True),
        Column("generation", "integer"),
        Column("options", "json"),
        Column("created_at", "time"),
        Column("details", "json", default="{}"),
    ),
)

SNAPSHOTS = StoreTable(
    "snapshots",
    "id",
    (
        Column("id", "text"),
        Column("label", "text", nullable=True),
        Column("kind", "text"),
        Column("state", "text"),
        Column("session_id", "text"),
        Column("parent_snapshot_id", "text", nullable=True),
        Column("image_id", "text", nullable=True),
        Column("bytes", "big"),
        Column("created_at", "time"),
        Column("details", "json"),
        Column("pinned", "flag", default="0"),
        Column("reason", "long", nullable=True),
    ),
    "FOREIGN KEY(session_id) REFERENCES sessions (id)",
)

OPERATIONS = StoreTable(
    "operations",
    "id",
    (
        Column("id", "text"),
        Column("kind", "text"),
        Column("session_id", "text", nullable=True),
        Column("snapshot_id", "text", nullable=True),
        Column("state", "text"),
        Column("owner_pid", "integer"),
        Column("owner_start", "text"),
        Column("started_at", "time"),
        Column("ended_at", "time", nullable=True),
        Column("details", "json"),
    ),
)

# Of journals: what sessions wrote down, numbered by themselves, and what this host did (`host`), with the
# number of the session's entry before it.
ENTRIES = StoreTable(
    "entries",
    "id",
    (
        Column("id", "integer"),
        Column("session_id", "text"),
        Column("seq", "big"),
        Column("host", "flag"),
        Column("at", "real"),
        Column("kind", "text"),
        Column("actor", "text", nullable=True),
        Column("body", "long"),
    ),
)

# Where sessions that were restored branched off.
BRANCHES = StoreTable(
    "branches",
    "session_id",
    (
        Column("session_id", "text"),
        Column("parent_session_id", "text"),
        Column("snapshot_id", "text"),
        Column("position", "big"),
        Column("at", "real"),
    ),
)

# Containers that are ready for sessions of future callers. `digest` names what they were made with.
WAITING = StoreTable(
    "waiting",
    "id",
    (
        Column("id", "text"),
        Column("digest", "text"),
        Column("image", "text"),
        Column("options", "json"),
        Column("kernel", "flag"),
        Column("container_id", "text"),
        Column("init_pid", "integer"),
        Column("init_start", "text"),
        Column("made_at", "time"),
    ),
)

TABLES = (BRANCHES, ENTRIES, OPERATIONS, SESSIONS, SNAPSHOTS, WAITING)
"""All tables, each after the tables that it refers to."""

_INDEXES = (
    "CREATE INDEX IF NOT EXISTS entry_place ON entries (session_id, host, seq)",
    # A name belongs to one session at a time; removed sessions keep theirs for the lineage.
    "CREATE UNIQUE INDEX IF NOT EXISTS session_name ON sessions (name) WHERE state != 'removed'",
    "CREATE INDEX IF NOT EXISTS snapshot_session ON snapshots (session_id)",
    "CREATE UNIQUE INDEX IF NOT EXISTS snapshot_label ON snapshots (label)",
    "CREATE INDEX IF NOT EXISTS operation_state ON operations (state)",
)


def making() -> tuple[str, ...]:
    """Return the statements that make an empty database of the present version."""
    return (*(table.definition() for table in TABLES), *_INDEXES)


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
"""The statements that turn a database of one version into one of the next."""
