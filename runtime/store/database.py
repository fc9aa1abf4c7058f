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

from holdfast.errors import StoreError
from holdfast.runtime.store import faults, schema

T = TypeVar("T")
Leaving = Callable[[Mapping[str, str]], None]
"""Receives the names, by container, of sessions that an upgrade puts out of reach; may refuse it."""

# A writer holds the lock for one small transaction and an fsync; a minute means trouble.
BUSY_SECONDS = 60


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
        with faults.translated(path):
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
            if not faults.is_damage(error) or not self.mend():
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
        with faults.translated(self._path):
            joint = self._joined()
            if joint is not None:
                yield joint
                return
            with self._engine.connect() as db:
                yield db

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction; no other process writes meanwhile."""
        with faults.translated(self._path):
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
