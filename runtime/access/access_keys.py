"""Access keys of a home: each admits one agent or person, with some rights, for some time.

A key's text is shown once; its SHA-256 is kept, which needs no stretching for 256 random bits. A key that is
revoked or has expired is refused from its next request on: a remembered key counts while the file is as it
was when it was read.
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
from dataclasses import dataclass, replace
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
_SECRET_OF_E2B = re.compile(rb"e2b_([0-9a-f]{12})([0-9a-f]{28})")
"""The form that clients of E2B accept: 40 digits, of which the first 12 are the id."""
_OF_E2B = "e2b:"
"""Before the digest of a key of that form."""
LINK = "link"
"""The kind of a key that opens web pages alone: the text of a link that a person shares."""
KEPT_SECONDS = 90 * 86400.0
"""How long a key by sign-in is listed after its end."""
MOST_OF_PERSON = 20
"""Keys of one person by sign-in; with the next one the oldest opens nothing any more."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
scopes TEXT NOT NULL, session TEXT NOT NULL, last4 TEXT NOT NULL, created_at REAL NOT NULL,
expires_at REAL NOT NULL, revoked_at REAL NOT NULL, used_at REAL NOT NULL, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS visits (id TEXT PRIMARY KEY, count INTEGER NOT NULL)
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
    is_of_e2b: bool = False
    """Whether its text has the form that clients of E2B accept."""
    visits: int = 0
    """How many pages a link has opened."""

    @property
    def actor(self) -> str:
        """Return the actor that it stands for: `agent:ci`. The visitor of a link is a person."""
        return f"{'person' if self.kind == LINK else self.kind}:{self.name}"

    @property
    def shown(self) -> str:
        """Return its text without the secret, for people."""
        return f"{f'e2b_{self.id}' if self.is_of_e2b else f'hf_{self.id}_'}…{self.last4}"

    def acts_as(self, told: str | None) -> str:
        """Return the actor of a request that names one. A caller can add to the name of its key.

        `agent:coder/7` with the key `ci` is `agent:ci/coder/7`, so keys do not act under each other's names.
        """
        if not told or told == self.actor or told.startswith(f"{self.actor}/"):
            return (told or self.actor)[: self.actor.index(":") + 1 + MOST_NAME_OF_ACTOR]
        more = told.removeprefix("agent").removeprefix("person").removeprefix("system").removeprefix(":")
        kind, _, name = (f"{self.actor}/{more}" if more else self.actor).partition(":")
        return f"{kind}:{name[:MOST_NAME_OF_ACTOR]}"

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
            "form": "e2b" if self.is_of_e2b else "hf",
            "created_at": self.created_at,
            "expires_at": self.expires_at or None,
            "revoked_at": self.revoked_at or None,
            "used_at": self.used_at or None,
        }


class AccessKeys:
    """The keys in a folder, for any number of threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._file = BesideDatabase(folder / FILE, SCHEMA, shared=True)
        self._seen: tuple[object, dict[str, tuple[AccessKey, str]]] = (None, {})
        """Keys with the digests of their secrets, and the stamp of the file before it was read for them."""

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        kind: str = "agent",
        session: str = "",
        seconds: float | None = None,
        of_e2b: bool = False,
        maker: str = "",
    ) -> tuple[AccessKey, str]:
        """Make a key; return it with its text, which is not stored.

        Args:
            name: its user, for the journal and the audit trail.
            scopes: scopes and roles.
            kind: `agent` or `person`, or `link`.
            session: the id of the only session it is for.
            seconds: until it expires.
            of_e2b: give its text the form that clients of E2B accept.
            maker: the name of the key that makes it, which the name begins with.

        Raises:
            InvalidArgument: the name is not valid or in use, or a scope does not exist.
            StoreError: the home cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"cannot name a key '{plain(name, 40)}': a name has 1 to {LONGEST_NAME} of a-z, 0-9, . _ -",
                hint="name who uses it, such as `ci` or `ada`",
            )
        name = f"{maker}/{name}" if maker else name
        if len(name) > MOST_NAME_OF_ACTOR:
            raise InvalidArgument(
                f"cannot name a key {plain(name, 80)}: with its maker's name that is more than "
                f"{MOST_NAME_OF_ACTOR} characters"
            )
        may = permissions.expanded(scopes)
        if not may:
            raise InvalidArgument("cannot make a key that allows nothing", hint="give it a role or a scope")
        id_, now = ids.new_id(), time.time()
        secret = secrets.token_hex(14) if of_e2b else secrets.token_urlsafe(32)
        ends = now + seconds if seconds else 0.0
        key = AccessKey(id_, name, kind, may, session, secret[-4:], now, ends, 0.0, is_of_e2b=of_e2b)
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
            values = (*row, _digest(secret.encode(), of_e2b=of_e2b))
            db.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return key, f"e2b_{id_}{secret}" if of_e2b else f"hf_{id_}_{secret}"

    def sign_in(self, name: str, scopes: Iterable[str], seconds: float) -> tuple[AccessKey, str]:
        """Make an additional key of a person; return it with its text.

        Raises:
            StoreError: the home cannot be written.
        """
        may = permissions.expanded(scopes)
        id_, secret, now = ids.new_id(), secrets.token_urlsafe(32), time.time()
        key = AccessKey(id_, name, "person", may, "", secret[-4:], now, now + seconds, 0.0)
        row = (f"{name}#{id_}", "person", " ".join(sorted(may)), "", key.last4, now, key.expires_at, 0.0, 0.0)
        older = (
            "UPDATE keys SET revoked_at = ? WHERE revoked_at = 0 AND kind = 'person' "
            "AND name LIKE ? ESCAPE '\\' AND id NOT IN (SELECT id FROM keys "
            "WHERE name LIKE ? ESCAPE '\\' AND kind = 'person' ORDER BY created_at DESC LIMIT ?)"
        )
        pattern = name.replace("_", r"\_") + "#%"
        with self._file.writing() as db:
            db.execute(older, (now, pattern, pattern, MOST_OF_PERSON - 1))
            db.execute(
                "DELETE FROM keys WHERE name LIKE ? ESCAPE '\\' AND kind = 'person' "
                "AND expires_at BETWEEN 1 AND ?",
                (pattern, now - KEPT_SECONDS),
            )
            values = (id_, *row, _digest(secret.encode(), of_e2b=False))
            db.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return key, f"hf_{id_}_{secret}"

    def list(self) -> list[AccessKey]:
        """Return all keys, the oldest first.

        Raises:
            StoreError: they cannot be read.
        """
        with self._file.reading() as db:
            rows = db.execute("SELECT * FROM keys ORDER BY created_at") if db else ()
            found = [_read(row) for row in rows]
            if db is None or not any(each.kind == LINK for each in found):
                return found
            visits = dict(map(tuple, db.execute("SELECT id, count FROM visits")))
            return [replace(each, visits=visits.get(each.id, 0)) for each in found]

    def revoke(self, ref: str) -> AccessKey:
        """Revoke the valid key of this name, actor (`person:ada`) or id; it opens nothing from now on.

        A person who has signed in several times has several keys of one name: all are revoked. Keys that were
        made with a key end with the last one of its name.

        Raises:
            InvalidArgument: there is not a valid key with that name or id.
            StoreError: the home cannot be written.
        """
        now, known = time.time(), self.list()
        found = [each for each in known if ref in (each.name, each.actor, each.id) and not each.revoked_at]
        if len({each.actor for each in found}) > 1:
            raise InvalidArgument(
                f"cannot revoke '{plain(ref, 40)}': an agent and a person have this name",
                hint=f"`holdfast access rm {found[0].actor}`",
            )
        if not found:
            raise InvalidArgument(
                f"cannot revoke '{plain(ref, 40)}': no key has that name or id",
                hint="`holdfast access ls`",
            )
        gone, actor = {each.id for each in found}, found[0].actor
        if not any(each.actor == actor and each.id not in gone and each.is_valid(now) for each in known):
            gone |= {each.id for each in known if each.actor.startswith(f"{actor}/") and not each.revoked_at}
        with self._file.writing() as db:
            marks = ", ".join("?" * len(gone))
            db.execute(
                f"UPDATE keys SET revoked_at = ? WHERE id IN ({marks})",  # noqa: S608
                (now, *gone),
            )
        return replace(found[0], revoked_at=now)

    def opened_by(self, given: bytes) -> AccessKey | None:
        """Return the valid key of this text; None if there is none. A link is not a key of requests.

        The ids of keys are public; secrets are compared in constant time.

        Raises:
            StoreError: the keys cannot be read.
        """
        key = self._of_text(given)
        return None if key is None or key.kind == LINK else self._used(key)

    def visited(self, given: bytes) -> AccessKey | None:
        """Count a visit by the text of a valid link, and return it; None if there is none.

        Raises:
            StoreError: the keys cannot be read, or the visit cannot be counted.
        """
        key = self._of_text(given)
        if key is None or key.kind != LINK:
            return None
        with self._file.writing() as db:
            db.execute(
                "INSERT INTO visits VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET count = visits.count + 1",
                (key.id,),
            )
        return self._used(key)

    def valid(self, id_: str) -> AccessKey | None:
        """Return the valid key with an id, for things derived from it; None if there is none.

        Raises:
            StoreError: the keys cannot be read.
        """
        found = self._find(id_)
        return found[0] if found is not None and found[0].is_valid(time.time()) else None

    def _of_text(self, given: bytes) -> AccessKey | None:
        parts, of_e2b = _SECRET.fullmatch(given), False
        if parts is None:
            parts, of_e2b = _SECRET_OF_E2B.fullmatch(given), True
        found = self._find(parts[1].decode()) if parts else None
        if parts is None or found is None:
            return None
        if not hmac.compare_digest(_digest(parts[2], of_e2b=of_e2b), found[1]):
            return None
        return found[0] if found[0].is_valid(time.time()) else None

    def _used(self, key: AccessKey) -> AccessKey:
        """Note, about once a minute, that a key was used."""
        now = time.time()
        if now - key.used_at > USED_SECONDS:
            with suppress(StoreError):
                self._file.later("UPDATE keys SET used_at = ? WHERE id = ?", now, key.id)
        return key

    def is_valid(self, key: AccessKey) -> bool:
        """Return whether a key still grants its rights.

        Raises:
            StoreError: the keys cannot be read.
        """
        return self.valid(key.id) is not None

    def has(self, id_: str) -> bool:
        """Return whether there is, or was, a key with this id.

        Raises:
            StoreError: the keys cannot be read.
        """
        return self._find(id_) is not None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _find(self, id_: str) -> tuple[AccessKey, str] | None:
        """Return a key and the digest of its secret."""
        stamp, seen = self._file.stamp(), self._seen
        if stamp is None or stamp != seen[0]:
            self._seen = seen = (stamp, {})
        elif (known := seen[1].get(id_)) is not None:
            return known
        with self._file.reading() as db:
            row = db.execute("SELECT * FROM keys WHERE id = ?", (id_,)).fetchone() if db else None
        if row is None:
            return None
        seen[1][id_] = found = _read(row), str(row["digest"])
        return found


def _digest(secret: bytes, *, of_e2b: bool) -> str:
    return (_OF_E2B if of_e2b else "") + hashlib.sha256(secret).hexdigest()


def _read(row: sqlite3.Row) -> AccessKey:
    """Return the key of a row. Scopes from a newer version are kept, but grant nothing here."""
    return AccessKey(
        row["id"],
        str(row["name"]).partition("#")[0],
        row["kind"] if row["kind"] in (*KINDS, LINK) else "agent",
        frozenset(str(row["scopes"]).split()),
        row["session"],
        row["last4"],
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
        row["used_at"],
        is_of_e2b=str(row["digest"]).startswith(_OF_E2B),
    )
