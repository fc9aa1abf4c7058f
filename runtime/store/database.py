"""The database of a home: opened, migrated to the present schema, read and written in transactions.

Owns SQLite and its errors; does not know the contents.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, StoreError
from holdfast.runtime.store import schema
from holdfast.runtime.store.schema import StoreTable
from holdfast.runtime.store.statements import Row, Statements

T = TypeVar("T")
Leaving = Callable[[Mapping[str, str]], None]
"""Receives the names, by container, of sessions that an upgrade puts out of reach; can refuse it."""

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
    """Safe to use from several processes and threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._joint = threading.local()

    @property
    def folder(self) -> str:
        """The folder that it is in: its home."""
        return str(self._path.parent)

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
        with translated(path):
            _prepare(path, leaving)
        return cls(path)

    def rows(self, make: Callable[[Row], T], table: StoreTable, rest: str = "", *values: Any) -> list[T]:
        """Return the results of a query (`Statements.rows`), each made by a function.

        A value that cannot be read is set aside first, and spoils nothing else.

        Raises:
            StoreError: the database cannot be read, or has a damaged value and cannot be written.
        """
        try:
            return self._rows(make, table, rest, *values)
        except StoreError as error:
            if not is_damage(error) or not self.mend():
                raise
        return self._rows(make, table, rest, *values)

    def mend(self) -> list[str]:
        """Set aside all values that cannot be read; return their places, in words.

        Raises:
            StoreError: the database cannot be written, or the file next to it.
        """
        from holdfast.runtime.store import mending

        with self.writing() as db:
            return mending.mend(db, self._path)

    def _rows(self, make: Callable[[Row], T], table: StoreTable, rest: str, *values: Any) -> list[T]:
        with self.reading() as db:
            return [make(row) for row in db.rows(table, rest, *values)]

    @contextmanager
    def reading(self) -> Iterator[Statements]:
        """Open a connection for reading."""
        with translated(self._path):
            joint = self._joined()
            if joint is not None:
                yield joint
                return
            with closing(connected(self._path)) as db:
                db.execute("BEGIN")
                yield Statements(db)

    @contextmanager
    def writing(self) -> Iterator[Statements]:
        """Open a transaction, during which no other process writes."""
        with translated(self._path):
            joint = self._joined()
            if joint is not None:
                yield joint
                return
            # The lock is taken at the start: two writers that both began by reading could only fail.
            with closing(connected(self._path)) as db, _transaction(db):
                yield Statements(db)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make this thread's reads and writes in the block one transaction: all of it lasts, or nothing.

        Each transaction waits for the disk several times. The block must not wait for anything else.
        """
        with self.writing() as db:
            outer, self._joint.connection = self._joined(), db
            try:
                yield
            finally:
                self._joint.connection = outer

    def _joined(self) -> Statements | None:
        found: Statements | None = getattr(self._joint, "connection", None)
        return found


def connected(path: Path) -> sqlite3.Connection:
    """Return a connection whose transactions begin explicitly, not at the driver's discretion."""
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for pragma in ("journal_mode = DELETE", "synchronous = FULL", "foreign_keys = ON"):
            db.execute(f"PRAGMA {pragma}").close()
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    with db:  # commits, or takes everything back
        yield


def _prepare(path: Path, leaving: Leaving | None) -> None:
    with closing(connected(path)) as db:
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        if found == schema.VERSION:
            return
        if found > schema.VERSION:
            raise StoreError(
                f"cannot use {path}: a newer version wrote it (format {found}, known {schema.VERSION})",
                hint="upgrade holdfast, or set HOLDFAST_HOME to another folder",
            )
        with _transaction(db):
            # Another process may have been faster.
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version and leaving is not None and version < schema.REACHED_FROM:
                leaving(_running(db))
            steps = (schema.MIGRATIONS[step] for step in range(version, schema.VERSION))
            for statements in steps if version else (schema.making(),):
                for statement in statements:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {schema.VERSION:d}")
    path.chmod(0o600)


def _running(db: sqlite3.Connection) -> dict[str, str]:
    found = db.execute(
        "SELECT container_id, name FROM sessions WHERE state = 'running' AND container_id IS NOT NULL "
        "ORDER BY created_at, id"
    )
    return {str(container): str(name) for container, name in found}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into StoreError. Violations of uniqueness pass."""
    try:
        yield
    except (sqlite3.IntegrityError, HoldfastError):
        raise
    except sqlite3.Error as error:
        why = str(error)
        if "decode to utf-8" in why.lower():
            raise _damaged(path) from error
        hint = next((advice for sign, advice in ADVICE if sign in why.lower()), "")
        raise StoreError(f"cannot use {path}: {why}", hint=hint) from error
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise _damaged(path) from error


def is_damage(error: BaseException) -> bool:
    """Return whether an error concerns an unreadable value, and nothing else."""
    return isinstance(error, StoreError) and _DAMAGE in str(error)


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"cannot use {path}: {_DAMAGE}",
        hint="`holdfast ls` and `holdfast snapshots` set it aside, and name its row from then on",
    )
