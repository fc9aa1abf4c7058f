"""A home with rows in a database that several machines share, and that database.  Types alone.

The files of such a home are copies: reads are from them, and writes go to the origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

STORE_FILE = "teams-store"
"""In the home of a server: the address of the PostgreSQL that has its teams, keys and people."""
QUOTA_FILE = "quota.json"
SharedTeam = tuple[str, float, str]
"""The name of a team, when it was made, and its secret."""


class WrittenRows(Protocol):
    """A connection in a transaction; values take the places of question marks."""

    def execute(self, statement: str, values: Any = ..., /) -> Any:
        """Execute a statement, and return its cursor."""


class CopiedRows(Protocol):
    """A file with a copy of rows."""

    path: Path
    schema: str
    """Statements that make its tables."""

    @property
    def version(self) -> int:
        """The version of the rows that it has; 0 for none."""

    def copy(self, version: int, tables: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Replace all rows by the rows of a version."""


class TeamsOrigin(Protocol):
    """Where several machines keep rows that they share. Methods raise StoreError while it cannot be used."""

    def renew(self, copy: CopiedRows) -> None:
        """Have a copy follow its rows; it is up to date on the first call."""

    def writing(self, copy: CopiedRows) -> AbstractContextManager[WrittenRows]:
        """Yield a transaction in which no other process writes these rows; the copy has its outcome."""

    def later(self, copy: CopiedRows, statement: str, values: Sequence[Any]) -> None:
        """Write something of which a loss does no harm, soon. The last value names its row."""

    def put(self, path: Path, content: str) -> None:
        """Share the content of a small file."""

    def teams(self) -> Sequence[SharedTeam] | None:
        """Return the teams of all machines; None if they are as at the last call. It does not wait."""

    def add_team(self, name: str, created_at: float, secret: str) -> bool:
        """Add a team; return False if the name is in use."""

    def remove_team(self, name: str) -> None:
        """Let a team be one no more, on all machines."""

    def forget_team(self, name: str) -> None:
        """Remove the rows of a team that was removed, unless there is a new one of its name."""

    def note_head(self, folder: Path, seq: int, hash_: str) -> None:
        """Note the head of the audit trail of this machine, about once a minute."""

    def heads(self, folder: Path) -> dict[int, str]:
        """Return the noted heads of that trail: hashes of rows by their numbers."""
