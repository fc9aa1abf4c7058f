"""The owners of names: the first person who signs in under a name, by any issuer, has it.

Names of people come from claims that can be changed there, given to a second person, or mean someone else
at a second issuer; the subject of a token does not change. Does not know keys.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InvalidArgument, NotPermitted
from holdfast.runtime.store.beside_database import BesideDatabase

FILE = "people.db"
SCHEMA = """
CREATE TABLE IF NOT EXISTS people (name TEXT PRIMARY KEY, issuer TEXT NOT NULL, subject TEXT NOT NULL,
role TEXT NOT NULL, team TEXT NOT NULL, first_at REAL NOT NULL, seen_at REAL NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """A person who has signed in; times are in seconds since 1970."""

    name: str
    issuer: str
    """The URL of the issuer; `proxy` for a trusted proxy."""
    subject: str
    role: str
    """As of the last time."""
    team: str
    first_at: float
    seen_at: float


class NameOwners:
    """The names in a folder; any number of threads and processes can use them."""

    def __init__(self, folder: Path) -> None:
        self._file = BesideDatabase(folder / FILE, SCHEMA, shared=True)

    def claim(self, name: str, issuer: str, subject: str, *, role: str, team: str) -> None:
        """Note that a person has signed in; the first one of a name owns it.

        Args:
            name: of the person here.
            issuer: its URL; `proxy` for a trusted proxy.
            subject: its own name for the person, for ever.
            role: as of now.
            team: whose home this is.

        Raises:
            NotPermitted: a different person has the name.
            StoreError: the home cannot be written.
        """
        now = time.time()
        with self._file.writing() as db:
            db.execute(
                "INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
                (name, issuer, subject, role, team, now, now),
            )
            changed = db.execute(
                "UPDATE people SET role = ?, team = ?, seen_at = ? "
                "WHERE name = ? AND issuer = ? AND subject = ?",
                (role, team, now, name, issuer, subject),
            )
            if changed.rowcount != 1:
                raise NotPermitted(
                    f"cannot sign in: a different person has the name {name} here",
                    hint=f"the server's owner can free it: `holdfast access forget {name}`",
                )

    def list(self) -> list[KnownPerson]:
        """Return all people who have signed in; raises StoreError."""
        with self._file.reading() as db:
            return (
                [KnownPerson(*row) for row in db.execute("SELECT * FROM people ORDER BY name")] if db else []
            )

    def forget(self, name: str) -> None:
        """Free a name.

        Raises:
            InvalidArgument: it is free.
            StoreError: the home cannot be written.
        """
        with self._file.writing() as db:
            if db.execute("DELETE FROM people WHERE name = ?", (name,)).rowcount != 1:
                raise InvalidArgument(f"cannot forget '{name[:40]}': that name is free")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
