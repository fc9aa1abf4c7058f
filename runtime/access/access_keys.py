"""Access keys of a home: each lets one agent or person in, to do some things, for some time.

A key's text is shown once; its SHA-256 is kept, which needs no stretching for 256 random bits. A key that is
revoked or has expired is refused from its next request on: each is looked up, and nothing remembers it.
Knows no request; the server's own token, which may do everything, is not among them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Float, MetaData, String, Table, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.access import permissions
from holdfast.runtime.store import beside_database
from holdfast.runtime.store.database import translated

FILE = "access.db"
KINDS = ("agent", "person")
USED_SECONDS = 60.0
"""Between two notes of when a key was used."""
LONGEST_NAME = 32
MOST_NAME_OF_ACTOR = 64
"""Characters: a limit of the session's own record of actors."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_SECRET = re.compile(rb"hf_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")

_metadata = MetaData()
_keys = Table(
    "keys",
    _metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("last4", String, nullable=False),
    Column("scopes", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("revoked_at", Float, nullable=False),
    Column("used_at", Float, nullable=False),
)


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
        """Return who acts with it: `agent:ci`."""
        return f"{self.kind}:{self.name}"

    def acts_as(self, told: str | None) -> str:
        """Return who acts in a request that says who does. A caller can say more than the key, nothing else.

        `agent:coder/7` with the key `ci` is `agent:ci/coder/7`; so nobody acts in the name of another key.
        """
        if not told or told == self.actor or told.startswith(f"{self.actor}/"):
            return (told or self.actor)[: len(self.kind) + 1 + MOST_NAME_OF_ACTOR]
        more = told.removeprefix("agent").removeprefix("person").removeprefix("system").removeprefix(":")
        name = f"{self.name}/{more}" if more else self.name
        return f"{self.kind}:{name[:MOST_NAME_OF_ACTOR]}"

    def is_valid(self, now: float) -> bool:
        """Return whether it opens anything."""
        return not self.revoked_at and (not self.expires_at or now < self.expires_at)

    def state(self, now: float) -> str:
        """Return `valid`, `expired` or `revoked`."""
        return "revoked" if self.revoked_at else "valid" if self.is_valid(now) else "expired"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
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
    """The keys in a folder; any thread and process can use them at once."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._engine = beside_database.engine(self._path)
        self._made = False

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        kind: str = "agent",
        session: str = "",
        seconds: float | None = None,
    ) -> tuple[AccessKey, str]:
        """Make a key; return it with its text, which is not kept.

        Args:
            name: of who uses it, for the journal and the audit trail.
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
            raise InvalidArgument("cannot make a key that may do nothing", hint="give it a role or a scope")
        id_, secret, now = ids.new_id(), secrets.token_urlsafe(32), time.time()
        key = AccessKey(
            id_, name, kind, may, session, secret[-4:], now, now + seconds if seconds else 0.0, 0.0
        )
        row = {
            "id": id_,
            "name": name,
            "kind": kind,
            "digest": _digest(secret.encode()),
            "last4": key.last4,
            "scopes": " ".join(sorted(may)),
            "session_id": session,
            "created_at": now,
            "expires_at": key.expires_at,
            "revoked_at": 0.0,
            "used_at": 0.0,
        }
        with translated(self._path):
            beside_database.make(self._engine, self._path, _metadata)
        try:
            with translated(self._path), self._engine.begin() as db:
                # A name is free again once its key opens nothing; the trail keeps the id of each.
                stale = (_keys.c.name == name) & (
                    (_keys.c.revoked_at > 0) | ((_keys.c.expires_at > 0) & (_keys.c.expires_at <= now))
                )
                db.execute(update(_keys).where(stale).values(name=_keys.c.name + "#" + _keys.c.id))
                db.execute(_keys.insert().values(**row))
        except IntegrityError as error:
            raise InvalidArgument(
                f"cannot make a key named {name}: there is one that is valid",
                hint=f"`holdfast access rm {name}` revokes it, or choose another name",
            ) from error
        return key, f"hf_{id_}_{secret}"

    def list(self) -> list[AccessKey]:
        """Return all keys, the oldest first.

        Raises:
            StoreError: they cannot be read.
        """
        if not self._exists():
            return []
        with translated(self._path), self._engine.connect() as db:
            return [_read(row) for row in db.execute(select(_keys).order_by(_keys.c.created_at))]

    def revoke(self, ref: str) -> AccessKey:
        """Revoke the valid key of this name or id; it opens nothing from now on.

        Raises:
            InvalidArgument: no valid key has that name or id.
            StoreError: the home cannot be written.
        """
        now = time.time()
        found = [each for each in self.list() if ref in (each.name, each.id) and not each.revoked_at]
        if not found:
            raise InvalidArgument(
                f"cannot revoke '{plain(ref, 40)}': no key has that name or id", hint="`holdfast access ls`"
            )
        with translated(self._path), self._engine.begin() as db:
            db.execute(update(_keys).where(_keys.c.id == found[0].id).values(revoked_at=now))
        return found[0]

    def opened_by(self, given: bytes) -> AccessKey | None:
        """Return the valid key of this text; None if there is none.

        A text takes the same time whether its id is known or not, but for the database's own look-up, and
        ids are no secrets.

        Raises:
            StoreError: the keys cannot be read.
        """
        parts = _SECRET.fullmatch(given)
        if parts is None or not self._exists():
            return None
        with translated(self._path), self._engine.connect() as db:
            row = db.execute(select(_keys).where(_keys.c.id == parts[1].decode())).one_or_none()
        known = row.digest if row is not None else "0" * 64
        if not hmac.compare_digest(_digest(parts[2]), known) or row is None:
            return None
        key, now = _read(row), time.time()
        if not key.is_valid(now):
            return None
        if now - key.used_at > USED_SECONDS:
            with suppress(StoreError), translated(self._path), self._engine.begin() as db:
                db.execute(update(_keys).where(_keys.c.id == key.id).values(used_at=now))
        return key

    def is_valid(self, key: AccessKey) -> bool:
        """Return whether a key still opens what it did.

        Raises:
            StoreError: the keys cannot be read.
        """
        with translated(self._path), self._engine.connect() as db:
            row = db.execute(select(_keys).where(_keys.c.id == key.id)).one_or_none()
        return row is not None and _read(row).is_valid(time.time())

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _exists(self) -> bool:
        """Return whether there ever was a key; a home without any has no file."""
        with translated(self._path):
            self._made = self._made or beside_database.is_made(self._engine, self._path)
        return self._made


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def _read(row: Any) -> AccessKey:
    """Return the key of a row. Scopes that a newer version gave are kept, and open nothing here."""
    name = str(row.name).partition("#")[0]
    return AccessKey(
        row.id,
        name,
        row.kind if row.kind in KINDS else "agent",
        frozenset(str(row.scopes).split()),
        row.session_id,
        row.last4,
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.used_at,
    )
