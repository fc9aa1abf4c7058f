"""A separate database next to a home's, which a server reads at each request. Does not know its tables.

One connection is kept, since opening one takes longer than a look-up. The last rows can be lost with
the machine's power, and not with the process. Where several machines share the teams of a home, the rows
are in PostgreSQL (the *origin*), and the file is a copy that is read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.base import file_stamp
from holdfast.base.home import TEAMS
from holdfast.errors import StoreError
from holdfast.runtime.store.database import translated
from holdfast.runtime.store.shared_rows import STORE_FILE, TeamsOrigin, WrittenRows

BUSY_SECONDS = 10


def origin_of(folder: Path) -> TeamsOrigin | None:
    """Return where the rows of a home, or of a team of it, are; None if they are in its own files.

    Raises:
        StoreError: the address cannot be read.
    """
    root = folder.parent.parent if folder.parent.name == TEAMS else folder
    if not os.access(f"{root}/{STORE_FILE}", os.F_OK):
        return None
    try:
        from holdfast.runtime.cluster import shared_teams  # with the driver of PostgreSQL
    except ImportError as error:
        from holdfast.base.extras import install_command

        raise StoreError(
            f"cannot use the database of teams: {error}", hint=f"`{install_command('cluster')}`"
        ) from error
    return shared_teams.of(root)


class BesideDatabase:
    """A file with the tables of `schema`, made by its first writer, for any thread and process.

    Args:
        path: the file.
        schema: statements that make its tables.
        shared: whether its rows belong to all machines that share the teams of a home.
    """

    def __init__(self, path: Path, schema: str, *, shared: bool = False) -> None:
        self.path, self.schema = path, schema
        self._name = str(path)
        self._origin = origin_of(path.parent) if shared else None
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection; None before the first row is written.

        Raises:
            StoreError: the file cannot be read, or is an old copy.
        """
        if self._origin is not None:
            self._origin.renew(self)
        with self._lock, translated(self.path):
            yield self._opened() if self._db is not None or self._is_made() else None

    def stamp(self) -> object:
        """Return a value that differs after each change of the rows; None if that is not clear yet.

        Raises:
            StoreError: the file is an old copy.
        """
        if self._origin is not None:
            self._origin.renew(self)
        return file_stamp.settled(self._name)

    @contextmanager
    def writing(self) -> Iterator[WrittenRows]:
        """Yield a connection in a transaction, which no other process writes in.

        Raises:
            StoreError: the file, or its origin, cannot be written.
        """
        if self._origin is None:
            with self._writing() as db:
                yield db
        else:
            with self._origin.writing(self) as rows:
                yield rows

    def later(self, statement: str, *values: Any) -> None:
        """Write something that can be lost, without keeping a server waiting for an origin.

        Raises:
            StoreError: the file cannot be written.
        """
        if self._origin is not None:
            self._origin.later(self, statement, values)
            return
        with self._writing() as db:
            db.execute(statement, values)

    @property
    def version(self) -> int:
        """The version of the rows that a copy has; 0 for none.

        Raises:
            StoreError: the file cannot be read.
        """
        with self._lock, translated(self.path):
            if self._db is None and not self.path.exists():
                return 0
            return int(self._opened().execute("PRAGMA user_version").fetchone()[0])

    def copy(self, version: int, tables: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Replace all rows by the rows of a version.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._writing() as db:
            for table, rows in tables.items():
                db.execute(f"DELETE FROM {table}")  # noqa: S608 - of the schema
                for row in rows:
                    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
            db.execute(f"PRAGMA user_version = {version:d}")

    def close(self) -> None:
        """Close the connection; the next use opens a new connection."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translated(self.path):
            db = self._opened()
            db.execute("BEGIN IMMEDIATE")
            with db:  # commits, or takes everything back
                for statement in self.schema.split(";"):
                    db.execute(statement)
                yield db

    def _is_made(self) -> bool:
        if not self.path.exists():
            return False
        if not self._opened().execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self.close()
            return False
        return True

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            db = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            db.row_factory = sqlite3.Row
            self._db = db
            db.execute("PRAGMA synchronous = NORMAL")
            self.path.chmod(0o600)
        return self._db
