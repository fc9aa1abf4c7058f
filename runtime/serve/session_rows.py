"""Looks up sessions over one open connection to the store: opening one takes most of the time of a lookup."""

from __future__ import annotations

import sqlite3
import threading

from holdfast.runtime.store import peek
from holdfast.runtime.store.rows import SessionRow


class SessionRows:
    """The rows of a database, as they are now; any thread may ask."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def find(self, ref: str) -> SessionRow | None:
        """Return the session with this name, id or prefix of an id; None if the store must be asked.

        Raises:
            SessionNotFound, InvalidArgument: none or several match.
        """
        with self._lock:
            try:
                if self._db is None:
                    self._db = peek.opened(self._database, one_thread=False)
                return peek.session_in(self._db, ref)
            except sqlite3.Error:
                self._close()
                return None

    def close(self) -> None:
        """Close the connection; the next lookup opens another one."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
