"""Access keys of a home: each admits one agent or person, with some rights, for some time.

A key's text is shown once; its SHA-256 is kept, which needs no stretching for 256 random bits. A key that is
revoked or has expired is refused from its next request on: each is looked up, and nothing remembers it.
Knows no request; the server's own token, which can do everything, is not among them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.access import permissions
from holdfast.runtime.store.beside_database import BesideDatabase

FILE = "access.db"
KINDS = ("agent", "person")
USED_SECONDS = 60.0
"""Between two notes of when a key was used."""
LONGEST_NAME = 32
MOST_NAME_OF_ACTOR = 64
"""Characters: a limit of the session's own record of actors."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_SECRET = re.compile(rb"hf_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
scopes TEXT NOT NULL, session TEXT NOT NULL, last4 TEXT NOT NULL, created_at REAL NOT NULL,
expires_at REAL NOT NULL, revoked_at REAL NOT NULL, used_at REAL NOT NULL, digest TEXT NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key without its secret. Times are in seconds since 1970; 0 is never."""

    id: str
    name: str
    kind: str
    scopes: frozenset[str]
    session: str
    """The id of the only session it is for; empty for all."""
    last4: str
    created_at: float
    expires_at: float
    revoked_at: float
    used_at: float = 0.0
    """To about a minute."""

    @property
    def actor(self) -> str:
        """Return the actor that the key stands for: `agent:ci`."""
        return f"{self.kind}:{self.name}"

    def acts_as(self, told: str | None) -> str:
        """Return the actor of a request that names one. A caller can add to the name of its key.

        `agent:coder/7` with the key `ci` is `agent:ci/coder/7`, so keys do not act under each other's names.
        """
        if not told or told == self.actor or told.startswith(f"{self.actor}/"):
            return (told or self.actor)[: len(self.kind) + 1 + MOST_NAME_OF_ACTOR]
        more = told.removeprefix("agent").removeprefix("person").removeprefix("system").removeprefix(":")
        name = f"{self.name}/{more}" if more else self.name
        return f"{self.kind}:{name[:MOST_NAME_OF_ACTOR]}"

    def is_valid(self, now: float) -> bool:
        """Return whether it grants access."""
        return not self.revoked_at and (not self.expires_at or now < self.expires_at)

    def state(self, now: float) -> str:
        """Return `valid`, `expired` or `revoked`."""
        return "revoked" if self.revoked_at else "valid" if self.is_valid(now) else "expired"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "scopes": [each for each in permissions.SCOPES if each in self.scopes],
            "session": self.session or None,
            "last4": self.last4,
            "created_at": self.created_at,
            "expires_at": self.expires_at or None,
            "revoked_at": self.revoked_at or None,
            "used_at": self.used_at or None,
        }


class AccessKeys:
    """The keys in a folder, for any number of threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._file = BesideDatabase(folder / FILE, _SCHEMA)

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        kind: str = "agent",
        session: str = "",
        seconds: float | None = None,
    ) -> tuple[AccessKey, str]:
        """Make a key; return it with its text, which is not stored.

        Args:
            name: its user, for the journal and the audit trail.
            scopes: scopes and roles.
            kind: `agent` or `person`.
            session: the id of the only session it is for.
            seconds: until it expires.

        Raises:
            InvalidArgument: the name is not valid or in use, or a scope does not exist.
            StoreError: the home cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"cannot name a key '{plain(name, 40)}': a name has 1 to {LONGEST_NAME} of a-z, 0-9, . _ -",
                hint="name who uses it, such as `ci` or `ada`",
            )
        may = permissions.expanded(scopes)
        if not may:
            raise InvalidArgument("cannot make a key that allows nothing", hint="give it a role or a scope")
        id_, secret, now = ids.new_id(), secrets.token_urlsafe(32), time.time()
        key = AccessKey(
            id_, name, kind, may, session, secret[-4:], now, now + seconds if seconds else 0.0, 0.0
        )
        row = (id_, name, kind, " ".join(sorted(may)), session, key.last4, now, key.expires_at, 0.0, 0.0)
        # A name is free again once its key opens nothing; the trail has the id of each.
        freed = (
            "UPDATE keys SET name = name || '#' || id "
            "WHERE name = ? AND (revoked_at > 0 OR (expires_at > 0 AND expires_at <= ?))"
        )
        with self._file.writing() as db:
            db.execute(freed, (name, now))
            if db.execute("SELECT 1 FROM keys WHERE name = ?", (name,)).fetchone():
                raise InvalidArgument(
                    f"cannot make a key named {name}: there is one that is valid",
                    hint=f"`holdfast access rm {name}` revokes it, or choose a different name",
                )
            values = (*row, _digest(secret.encode()))
            db.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return key, f"hf_{id_}_{secret}"

    def list(self) -> list[AccessKey]:
        """Return all keys, the oldest first.

        Raises:
            StoreError: they cannot be read.
        """
        with self._file.reading() as db:
            found = db.execute("SELECT * FROM keys ORDER BY created_at") if db else ()
            return [_read(row) for row in found]

    def revoke(self, ref: str) -> AccessKey:
        """Revoke the valid key of this name or id; it grants nothing from now on.

        Raises:
            InvalidArgument: there is not a valid key with that name or id.
            StoreError: the home cannot be written.
        """
        now = time.time()
        found = [each for each in self.list() if ref in (each.name, each.id) and not each.revoked_at]
        if not found:
            raise InvalidArgument(
                f"cannot revoke '{plain(ref, 40)}': no key has that name or id",
                hint="`holdfast access ls`",
            )
        with self._file.writing() as db:
            db.execute("UPDATE keys SET revoked_at = ? WHERE id = ?", (now, found[0].id))
        return found[0]

    def opened_by(self, given: bytes) -> AccessKey | None:
        """Return the valid key of this text; None if there is none.

        The ids of keys are public; secrets are compared in constant time.

        Raises:
            StoreError: the keys cannot be read.
        """
        parts = _SECRET.fullmatch(given)
        found = self._find(parts[1].decode()) if parts else None
        if parts is None or found is None or not hmac.compare_digest(_digest(parts[2]), found[1]):
            return None
        key, now = found[0], time.time()
        if not key.is_valid(now):
            return None
        if now - key.used_at > USED_SECONDS:
            with suppress(StoreError), self._file.writing() as db:
                db.execute("UPDATE keys SET used_at = ? WHERE id = ?", (now, key.id))
        return key

    def is_valid(self, key: AccessKey) -> bool:
        """Return whether a key still grants its rights.

        Raises:
            StoreError: the keys cannot be read.
        """
        found = self._find(key.id)
        return found is not None and found[0].is_valid(time.time())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _find(self, id_: str) -> tuple[AccessKey, str] | None:
        """Return a key and the digest of its secret."""
        with self._file.reading() as db:
            row = db.execute("SELECT * FROM keys WHERE id = ?", (id_,)).fetchone() if db else None
        return None if row is None else (_read(row), str(row["digest"]))


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def _read(row: sqlite3.Row) -> AccessKey:
    """Return the key of a row. Scopes from a newer version are kept, but grant nothing here."""
    return AccessKey(
        row["id"],
        str(row["name"]).partition("#")[0],
        row["kind"] if row["kind"] in KINDS else "agent",
        frozenset(str(row["scopes"]).split()),
        *tuple(row)[4:-1],
    )
