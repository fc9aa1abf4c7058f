"""A separate database next to a home's, which a server reads at each request. Does not know its tables.

One connection is kept, since opening one takes longer than a look-up. The last rows can be lost with
the machine's power, and not with the process.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.runtime.store.database import translated

BUSY_SECONDS = 10


class BesideDatabase:
    """A file with the tables of `schema`, made by its first writer, for any thread and process."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path, self._schema = path, schema
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection; None before the first row is written.

        Raises:
            StoreError: the file cannot be read.
        """
        with self._lock, translated(self.path):
            yield self._opened() if self._db is not None or self._is_made() else None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which no other process writes in.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._lock, translated(self.path):
            db = self._opened()
            db.execute("BEGIN IMMEDIATE")
            with db:  # commits, or takes everything back
                for statement in self._schema.split(";"):
                    db.execute(statement)
                yield db

    def close(self) -> None:
        """Close the connection; the next use opens a new connection."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

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
