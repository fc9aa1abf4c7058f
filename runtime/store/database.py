"""The database of a home: opened, migrated to the present schema, read and written in transactions.

Owns SQLite and its errors; knows nothing of the contents. Damaged values are set aside, one by one, so that
all other rows stay of use: a bit that flips in one row must not take a home from its owner. A row with a
value that cannot be read is written to a file next to the database, as it was, and gets a value that can. It
says so: a snapshot is damaged, a session cannot be reached, and both can be removed by name; an operation is
not undone any more.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    URL,
    Boolean,
    Column,
    Connection,
    Engine,
    Executable,
    Float,
    Integer,
    NullPool,
    Row,
    Table,
    create_engine,
    event,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from holdfast.base import ids, private_files
from holdfast.errors import HoldfastError, StoreError
from holdfast.runtime.store import schema
from holdfast.runtime.store.rows import OperationKind

ASIDE = "damaged-rows.jsonl"
_EPOCH = datetime.fromtimestamp(0, UTC).isoformat(timespec="microseconds")
KNOWN: Mapping[tuple[str, str], frozenset[str]] = {
    ("sessions", "state"): frozenset({"creating", "running", "suspended", "dead", "removed"}),
    ("snapshots", "state"): frozenset({"pending", "ready", "damaged"}),
    ("snapshots", "kind"): frozenset({"live", "filesystem"}),
    ("operations", "state"): frozenset({"intent", "done", "failed"}),
    ("operations", "kind"): frozenset(OperationKind),
}
"""The values that some columns may have. A version of before takes another for damage, so a new one raises
the version of the schema: then it refuses the home, and changes nothing in it."""
_INSTEAD: Mapping[tuple[str, str], Any] = {
    ("sessions", "state"): "dead",
    ("sessions", "image"): "",
    ("snapshots", "state"): "damaged",
    ("snapshots", "kind"): "live",
    ("operations", "state"): "failed",
    ("operations", "kind"): OperationKind.NEW.value,
    ("operations", "owner_start"): "",
    ("entries", "kind"): "damaged",
    ("entries", "body"): '{"damaged":true}',
}
"""What a column gets that cannot be empty; others by their type."""
_HARMLESS = frozenset({"created_at", "label", "reason", "pinned", "bytes", "parent_snapshot_id"})
"""Columns of a snapshot without which it is as good as before."""


def mend(db: Connection, database: Path) -> list[str]:
    """Set all damaged values aside, in a transaction that writes; return their places, in words.

    Raises:
        OSError: the file next to the database cannot be written; nothing is changed.
    """
    found: list[str] = []
    for table in schema.metadata.sorted_tables:
        for rowid, values, damaged in list(_damaged_rows(db, table)):
            _keep(database.with_name(ASIDE), table, values)
            name = _name(table, values, damaged, rowid)
            found.append(f"{table.name[:-1]} {name}: {', '.join(sorted(damaged))}")
            _replace(db, table, rowid, values, damaged, name)
    return found


def _damaged_rows(db: Connection, table: Table) -> Any:
    """Yield rows with values that cannot be read: their number, all values as bytes, and which they are."""
    columns = ", ".join(f'CAST("{column.name}" AS BLOB)' for column in table.columns)
    for rowid, *raw in db.exec_driver_sql(f'SELECT rowid, {columns} FROM "{table.name}"'):  # noqa: S608
        values = dict(zip((column.name for column in table.columns), raw, strict=True))
        damaged = {each.name for each in table.columns if not _is_whole(table, each, values[each.name])}
        if damaged:
            yield rowid, values, damaged


def _is_whole(table: Table, column: Column[Any], value: bytes | None) -> bool:
    if value is None:
        return bool(column.nullable)
    try:
        text = value.decode()
        if (known := KNOWN.get((table.name, column.name))) is not None:
            return text in known
        reader = next((each for kind, each in _READERS if isinstance(column.type, kind)), None)
        if reader is not None:
            reader(text)
        elif (table.name, column.name) == ("entries", "body"):
            _table(text)
    except ValueError:
        return False
    return True


def _table(text: str) -> None:
    if not isinstance(json.loads(text), dict):
        raise ValueError("it is no table")


def _flag(text: str) -> None:
    if text not in ("0", "1"):
        raise ValueError("it is neither true nor false")


_READERS: tuple[tuple[type, Callable[[str], Any]], ...] = (
    (JSON, _table),
    (schema.UtcTime, datetime.fromisoformat),
    (Boolean, _flag),
    (Integer, int),
    (Float, float),
)


def _name(table: Table, values: Mapping[str, bytes | None], damaged: set[str], rowid: int) -> str:
    """Return a name for a row, for people."""
    for key in ("label", "name", "id", "session_id"):
        value = values.get(key)
        if value is not None and key in table.columns and key not in damaged:
            return value.decode("utf-8", "replace")
    return f"number {rowid}"


def _keep(file: Path, table: Table, values: Mapping[str, bytes | None]) -> None:
    """Write a row as it was to the end of a file."""
    kept = {key: None if value is None else value.hex() for key, value in values.items()}
    line = json.dumps({"at": time.time(), "table": table.name, "values": kept})
    private_files.append(file, f"{line}\n".encode())


def _replace(
    db: Connection, table: Table, rowid: int, values: Mapping[str, bytes | None], damaged: set[str], name: str
) -> None:
    keys = {column.name for column in table.primary_key} | ({"seq"} if table.name == "entries" else set())
    if damaged & keys or (table.name in ("entries", "branches") and damaged - {"body", "actor", "kind"}):
        # Nothing finds it any more: it is in the file only, unless other rows need it.
        with suppress(IntegrityError), db.begin_nested():
            db.exec_driver_sql(f'DELETE FROM "{table.name}" WHERE rowid = ?', (rowid,))  # noqa: S608
        return
    changed = {key: _instead(table, table.columns[key]) for key in damaged}
    why = f"its record in the store was damaged ({', '.join(sorted(damaged))})"
    if table.name == "sessions":
        if "name" in damaged:
            changed["name"] = f"damaged-{ids.new_id()[:8]}"
        container = values["container_id"]
        if container is not None and "container_id" not in damaged and damaged - {"created_at", "generation"}:
            details = _details(values, damaged)
            details["unhealthy"] = {"container": container.decode(), "why": why}
            changed["details"] = json.dumps(details)
    elif table.name == "snapshots" and damaged - _HARMLESS:
        changed["state"] = "damaged"
        changed["details"] = json.dumps(_details(values, damaged) | {"damage": why})
        if "session_id" in damaged:
            changed["session_id"] = _unknown_session(db)
    elif table.name == "operations" and damaged - {"ended_at", "started_at"}:
        # To undo what it says could do harm now. What it left behind is garbage, which `gc` finds.
        changed["state"] = "failed"
        changed["ended_at"] = datetime.now(UTC).isoformat(timespec="microseconds")
    sets = ", ".join(f'"{key}" = ?' for key in changed)
    db.exec_driver_sql(
        f'UPDATE "{table.name}" SET {sets} WHERE rowid = ?',  # noqa: S608
        (*changed.values(), rowid),
    )


def _details(values: Mapping[str, bytes | None], damaged: set[str]) -> dict[str, Any]:
    found = values["details"]
    return {} if found is None or "details" in damaged else dict(json.loads(found))


def _instead(table: Table, column: Column[Any]) -> Any:
    if (table.name, column.name) in _INSTEAD:
        return _INSTEAD[table.name, column.name]
    if column.nullable:
        return None
    if isinstance(column.type, JSON):
        return "{}"
    if isinstance(column.type, schema.UtcTime):
        return _EPOCH
    return 0 if isinstance(column.type, Integer | Float | Boolean) else ""


def _unknown_session(db: Connection) -> str:
    """Return the id of a session that was removed, for snapshots of which it is not known whose they are."""
    made = ids.new_id()
    db.execute(
        schema.sessions.insert().values(
            id=made,
            name="unknown",
            state="removed",
            image="",
            generation=0,
            options={},
            created_at=datetime.now(UTC),
            details={},
        )
    )
    return made


T = TypeVar("T")
Leaving = Callable[[Mapping[str, str]], None]
"""Receives the names, by container, of sessions that an upgrade puts out of reach; may refuse it."""

# A writer holds the lock for one small transaction and an fsync; a minute means trouble.
BUSY_SECONDS = 60
_DAMAGE = "a value in it is damaged"
# SQLite's messages, and what to do; the first match counts.
ADVICE = (
    ("disk is full", "free some disk space; `holdfast rm`, `rmi` and `gc` work on a full disk"),
    ("disk i/o error", "check the disk: free space, quota, health"),
    ("unable to open", "make the folder writable, or set HOLDFAST_HOME to one that is"),
    ("readonly", "make the file writable, or set HOLDFAST_HOME to a folder that is"),
    ("not a database", "move the file away, or set HOLDFAST_HOME to another folder"),
    ("malformed", "move the file away, or restore it from a backup"),
    ("locked", "another process holds it; try again"),
    ("no such", "move the file away, or restore it from a backup"),
)


class Database:
    """Safe to use from several processes and threads at once."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._joint = threading.local()

    @classmethod
    def open(cls, path: Path, leaving: Leaving | None = None) -> Database:
        """Open the database at path; make it if it is missing.

        Args:
            path: the file.
            leaving: called before a database is upgraded whose running sessions are then not reached.

        Raises:
            StoreError: it cannot be opened, is damaged, or was written by a newer version, or `leaving`
                refused.
        """
        engine = create_engine(
            URL.create("sqlite", database=str(path)),  # as text, some characters of the path would mean more
            poolclass=NullPool,
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        )
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
        with translated(path):
            _prepare(engine, path, leaving)
        return cls(engine, path)

    def rows(self, query: Executable, make: Callable[[Row[Any]], T]) -> list[T]:
        """Return what a query finds. A value that cannot be read is set aside first, and spoils nothing else.

        Raises:
            StoreError: the database cannot be read, or has a damaged value and cannot be written.
        """
        try:
            return self._rows(query, make)
        except StoreError as error:
            if not is_damage(error) or not self.mend():
                raise
        return self._rows(query, make)

    def mend(self) -> list[str]:
        """Set aside all values that cannot be read; return their places, in words.

        Raises:
            StoreError: the database cannot be written, or the file next to it.
        """

        with self.writing() as db:
            return mend(db, self._path)

    def _rows(self, query: Executable, make: Callable[[Row[Any]], T]) -> list[T]:
        with self.reading() as db:
            return [make(row) for row in db.execute(query)]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection for reading."""
        with translated(self._path):
            joint = self._joined()
            if joint is not None:
                yield joint
                return
            with self._engine.connect() as db:
                yield db

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction; no other process writes meanwhile."""
        with translated(self._path):
            joint = self._joined()
            if joint is not None:
                yield joint
                return
            # The lock is taken at the start: two writers that both began by reading could only fail.
            with self._engine.connect() as db, db.execution_options(immediate=True).begin():
                yield db

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make what this thread reads and writes in the block one transaction: all of it lasts, or nothing.

        Each transaction waits for the disk several times. Nothing else may be waited for in the block.
        """
        with self.writing() as db:
            outer, self._joint.connection = self._joined(), db
            try:
                yield
            finally:
                self._joint.connection = outer

    def _joined(self) -> Connection | None:
        found: Connection | None = getattr(self._joint, "connection", None)
        return found


def _prepare(engine: Engine, path: Path, leaving: Leaving | None) -> None:
    with engine.connect() as db:
        found = db.exec_driver_sql("PRAGMA user_version").scalar_one()
    if found == schema.VERSION:
        return
    if found > schema.VERSION:
        raise StoreError(
            f"cannot use {path}: a newer version wrote it (format {found}, known {schema.VERSION})",
            hint="upgrade holdfast, or set HOLDFAST_HOME to another folder",
        )
    with engine.connect() as db, db.execution_options(immediate=True).begin():
        # Another process may have been faster.
        version = db.exec_driver_sql("PRAGMA user_version").scalar_one()
        if version == 0:
            schema.metadata.create_all(db, checkfirst=True)
        else:
            if leaving is not None and version < schema.REACHED_FROM:
                leaving(_running(db))
            for step in range(version, schema.VERSION):
                for statement in schema.MIGRATIONS[step]:
                    db.exec_driver_sql(statement)
        db.exec_driver_sql(f"PRAGMA user_version = {schema.VERSION:d}")
    path.chmod(0o600)


def _running(db: Connection) -> dict[str, str]:
    found = db.exec_driver_sql(
        "SELECT container_id, name FROM sessions WHERE state = 'running' AND container_id IS NOT NULL "
        "ORDER BY created_at, id"
    )
    return {str(container): str(name) for container, name in found}


def _on_connect(connection: Any, _record: Any) -> None:
    # SQLAlchemy decides when a transaction begins, not the driver.
    connection.isolation_level = None
    for pragma in ("journal_mode = DELETE", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _on_begin(db: Connection) -> None:
    db.exec_driver_sql("BEGIN IMMEDIATE" if db.get_execution_options().get("immediate") else "BEGIN")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLAlchemy raises into StoreError. Violations of uniqueness pass."""
    try:
        yield
    except (IntegrityError, HoldfastError):
        raise
    except SQLAlchemyError as error:
        if isinstance(error, OperationalError) and "decode to utf-8" in str(error.orig).lower():
            raise _damaged(path) from error
        why = str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__
        hint = next((advice for sign, advice in ADVICE if sign in why.lower()), "")
        raise StoreError(f"cannot use {path}: {why}", hint=hint) from error
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise _damaged(path) from error


def is_damage(error: BaseException) -> bool:
    """Return whether an error is that of a value that cannot be read, and of nothing else."""
    return isinstance(error, StoreError) and _DAMAGE in str(error)


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"cannot use {path}: {_DAMAGE}",
        hint="`holdfast ls` and `holdfast snapshots` set it aside, and name its row from then on",
    )
