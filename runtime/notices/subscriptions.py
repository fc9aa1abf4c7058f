"""Subscriptions to notices, in a file of the home.

A subscription ends with the right it was made under: an access key, or the server's token. Secrets are kept
as they are, since requests are signed with them; the file is its owner's. Sends nothing.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sqlite3
import time
from dataclasses import dataclass, replace
from datetime import time as time_of_day
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from holdfast.base import ids, private_files
from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.notices import push_messages
from holdfast.runtime.notices.notice_rules import KINDS, QuietHours, Wish
from holdfast.runtime.notices.push_messages import PushKeys, PushSigner
from holdfast.runtime.store.beside_database import BesideDatabase

FILE, KEY_FILE = "notices.db", "notices.key"
MOST_OF_ACTOR, MOST = 20, 1000
MOST_FAILURES = 20
"""Notices in a row that did not arrive, after which a subscription gets no more."""
SECRET = "whsec_"  # noqa: S105 - what each begins with
Way = Literal["webhook", "push"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS subscriptions (id TEXT PRIMARY KEY, actor TEXT NOT NULL, holder TEXT NOT NULL,
session TEXT NOT NULL, kinds TEXT NOT NULL, after REAL NOT NULL, quiet TEXT NOT NULL, way TEXT NOT NULL,
url TEXT NOT NULL, secret TEXT NOT NULL, created_at REAL NOT NULL, told_at REAL NOT NULL,
failures INTEGER NOT NULL, trouble TEXT NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of one actor, for one address.

    Attributes:
        id: of it.
        actor: whose it is.
        holder: the right under which it was made: the id of a key, or the stamp of the server's token.
        session: the id of the only session; empty for all.
        kinds: of notices.
        after: seconds that a command must have run for a notice of its end.
        quiet: `22:00-07:00 Europe/Berlin`; empty for none.
        way: webhook or push.
        url: where it is sent.
        secret: signs requests to a webhook; the keys of a browser in JSON.
        created_at, told_at: in seconds since 1970; 0 is never.
        failures: notices in a row that did not arrive.
        trouble: why the last one did not.
    """

    id: str
    actor: str
    holder: str
    session: str
    kinds: tuple[str, ...]
    after: float
    quiet: str
    way: Way
    url: str
    secret: str
    created_at: float
    told_at: float = 0.0
    failures: int = 0
    trouble: str = ""

    @property
    def wish(self) -> Wish:
        """Its wish."""
        return Wish(self.actor, self.session, frozenset(self.kinds), self.after, quiet_hours(self.quiet))

    @property
    def is_off(self) -> bool:
        """True once too many notices in a row did not arrive."""
        return self.failures >= MOST_FAILURES

    def push_keys(self) -> PushKeys:
        """Return the keys of the browser."""
        found = json.loads(self.secret)
        return PushKeys.read(found["p256dh"], found["auth"])

    def signing_key(self) -> bytes:
        """Return the key that signs requests to a webhook."""
        return base64.b64decode(self.secret.removeprefix(SECRET))


def quiet_hours(text: str) -> QuietHours | None:
    """Read hours such as `22:00-07:00 Europe/Berlin`; UTC without a zone, None without hours.

    Raises:
        InvalidArgument: they are not hours, or the zone does not exist.
    """
    if not text:
        return None
    hours, _, zone = text.partition(" ")
    begin, _, end = hours.partition("-")
    try:
        return QuietHours(
            time_of_day.fromisoformat(begin), time_of_day.fromisoformat(end), ZoneInfo(zone.strip() or "UTC")
        )
    except (ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise _no_hours(text) from error
    except KeyError as error:
        raise _no_hours(text) from error


def _no_hours(text: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot keep quiet at '{plain(text, 60)}': it is not two times and a zone",
        hint="for example `22:00-07:00 Europe/Berlin`",
    )


def new_secret() -> str:
    """Return a new secret of a webhook, in the form of Standard Webhooks."""
    return SECRET + base64.b64encode(secrets.token_bytes(32)).decode()


class Subscriptions:
    """The subscriptions of a home; any number of threads and processes can use them."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file = BesideDatabase(home.root / FILE, _SCHEMA)

    @property
    def are_made(self) -> bool:
        """Whether there is, or was, a subscription: a home without one costs a look at a name."""
        return os.access(self._file.path, os.F_OK)

    def add(
        self,
        actor: str,
        holder: str,
        way: Way,
        url: str,
        secret: str,
        *,
        session: str = "",
        kinds: tuple[str, ...] = KINDS,
        after: float = 60.0,
        quiet: str = "",
    ) -> Subscription:
        """Add one; the same browser's of before is replaced.

        Raises:
            InvalidArgument: the hours are not valid, or the actor has too many.
            StoreError: the home cannot be written.
        """
        quiet_hours(quiet)
        made = Subscription(
            ids.new_id(), actor, holder, session, tuple(kinds), after, quiet, way, url, secret, time.time()
        )
        with self._file.writing() as db:
            if way == "push":
                db.execute("DELETE FROM subscriptions WHERE url = ? AND actor = ?", (url, actor))
            own = db.execute("SELECT count(*) FROM subscriptions WHERE actor = ?", (actor,)).fetchone()[0]
            total = db.execute("SELECT count(*) FROM subscriptions").fetchone()[0]
            if own >= MOST_OF_ACTOR or total >= MOST:
                raise InvalidArgument(
                    f"cannot subscribe: an actor has at most {MOST_OF_ACTOR} subscriptions, all have {MOST}",
                    hint="remove one that is not needed",
                )
            values = (
                made.id, actor, holder, session, " ".join(made.kinds), after, quiet, way, url, secret,
                made.created_at, 0.0, 0, "",
            )  # fmt: skip
            db.execute("INSERT INTO subscriptions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return made

    def list(self, actor: str | None = None) -> list[Subscription]:
        """Return all subscriptions, or an actor's, the oldest first.

        Raises:
            StoreError: they cannot be read.
        """
        with self._file.reading() as db:
            rows = db.execute("SELECT * FROM subscriptions ORDER BY created_at, id") if db else ()
            return [each for each in map(_read, rows) if actor in (None, each.actor)]

    def find(self, id_: str, actor: str) -> Subscription:
        """Return a subscription of an actor.

        Raises:
            InvalidArgument: the actor does not have one with that id.
        """
        for each in self.list(actor):
            if each.id == id_:
                return each
        raise InvalidArgument(f"cannot find subscription {plain(id_, 20)}: you do not have one with that id")

    def remove(self, id_: str) -> None:
        """Remove a subscription.

        Raises:
            StoreError: the home cannot be written.
        """
        with self._file.writing() as db:
            db.execute("DELETE FROM subscriptions WHERE id = ?", (id_,))

    def told(self, id_: str, trouble: str = "") -> None:
        """Note that a notice has arrived, or the reason why not.

        Raises:
            StoreError: the home cannot be written.
        """
        change = "failures = failures + 1" if trouble else "failures = 0"
        with self._file.writing() as db:
            db.execute(
                f"UPDATE subscriptions SET told_at = ?, trouble = ?, {change} WHERE id = ?",  # noqa: S608 - ours
                (time.time(), plain(trouble, 200), id_),
            )

    def signer(self) -> PushSigner:
        """Return the key by which push services know this home; it is made at the first use.

        Raises:
            StoreError: it cannot be read or written.
        """
        path: Path = self._home.root / KEY_FILE
        try:
            if not path.exists():
                with self._file.writing():  # one process at a time
                    if not path.exists():
                        private_files.replace(path, push_messages.new_key())
            return PushSigner(path.read_bytes())
        except (OSError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"cannot use {path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _read(row: sqlite3.Row) -> Subscription:
    values: dict[str, Any] = dict(row)
    return replace(Subscription(**values), kinds=tuple(str(values["kinds"]).split()))
