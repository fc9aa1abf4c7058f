"""The database of a home: opened, migrated to the present schema, read and written in transactions.

Owns SQLite and its errors; knows nothing of the contents.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, NullPool, Row, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from holdfast.errors import HoldfastError, StoreError
from holdfast.runtime.store import schema

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
        from holdfast.runtime.store import mending

        with self.writing() as db:
            return mending.mend(db, self._path)

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
