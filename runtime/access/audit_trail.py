"""The audit trail of a home: a row for each request to its servers, in a chain that shows changes.

The hash of a row covers the row before it, so a row that is changed, removed or put in is found; an end that
was cut off is found by a comparison with an earlier head. Each transaction signs its last row: a chain that
was cut and linked again is found too. Where machines share teams, their database has heads as well: not even
the owner of a home can write its trail again. A thread writes rows, some at a time: the last ones are lost if
the server is killed. Bodies and commands are not in it. Knows no server.
"""

from __future__ import annotations

import hashlib
import json
import queue
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.access import signed_heads
from holdfast.runtime.access.signed_heads import HeadsCheck, SignedHead
from holdfast.runtime.store.beside_database import BesideDatabase, origin_of
from holdfast.snapshots.bundle.signing import Signer

FILE = "audit.db"
SERVER_KEY = "server"
"""In place of the id of a key: the server's own token."""
FIRST_HASH = "0" * 64
MOST_AT_ONCE = 500
GATHER_SECONDS = 0.2
"""From the first row that waits to the transaction that writes it, with all that came since."""
MOST_WAITING = 50_000
"""Rows that wait for a disk that does not take them; later ones are counted, and the count is a row."""
_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (seq INTEGER PRIMARY KEY, at REAL NOT NULL, actor TEXT NOT NULL,
key TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL, session TEXT NOT NULL, status INTEGER NOT NULL,
request TEXT NOT NULL, seconds REAL NOT NULL, hash TEXT NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One request: its actor, key, path and session, and the status of its answer."""

    at: float
    """Seconds since 1970."""
    actor: str
    key: str
    """The id of the access key; `server` for the server's own token."""
    method: str
    path: str
    """The template of the path: `/v1/sessions/{session}/exec`."""
    session: str
    """As the request named it."""
    status: int
    request: str
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return asdict(self)

    def hashed(self, before: str) -> str:
        """Return the hash of its row after a row with the hash `before`."""
        text = json.dumps([before, *asdict(self).values()], ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TrailCheck:
    """The findings of a check of the whole trail."""

    rows: int
    head: str
    """`SEQ:HASH` of the last row; to note elsewhere, and check later ones against."""
    faults: tuple[str, ...] = ()
    heads: int = 0
    """Signed ones that match."""


class AuditTrail:
    """The trail in a folder. One object writes from any number of threads, until it is closed.

    Args:
        folder: of the home.
        signer: signs heads of what is written; None for a trail that is only read.
    """

    def __init__(self, folder: Path, signer: Signer | None = None) -> None:
        self._signer, self._folder = signer, folder
        self._file = BesideDatabase(folder / FILE, f"{_SCHEMA};{signed_heads.SCHEMA}")
        self._waiting: queue.Queue[AuditedRequest | None] = queue.Queue(MOST_WAITING)
        self._dropped = 0
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()

    def note(self, request: AuditedRequest) -> None:
        """Queue a row, to be written within a moment; never waits."""
        with self._lock:
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_all, name="audit", daemon=True)
                self._writer.start()
        try:
            self._waiting.put_nowait(request)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write the queued rows, and close the file."""
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(queue.Full):
                self._waiting.put(None, timeout=5)
            writer.join(10)
        self._file.close()

    def numbered(
        self, *, since: float = 0.0, actor: str = "", session: str = "", most: int | None = None
    ) -> list[tuple[int, AuditedRequest]]:
        """Return the requests of a time with their numbers, the latest `most` of them, in their order.

        Args:
            since: seconds since 1970.
            actor: an actor, with all that has its name and a slash in front; `agent` for all agents.
            session: as requests named it.
            most: rows.

        Raises:
            StoreError: the trail cannot be read.
        """
        query = "SELECT * FROM requests WHERE at >= ? AND (? = '' OR session = ?) ORDER BY seq DESC"
        with self._file.reading() as db:
            found = (
                (int(row["seq"]), _read(row))
                for row in (db.execute(query, (since, session, session)) if db else ())
            )
            chosen = (each for each in found if not actor or _is_of(actor, each[1].actor))
            return list(islice(chosen, most))[::-1]

    def rows(
        self, *, since: float = 0.0, actor: str = "", session: str = "", most: int | None = None
    ) -> list[AuditedRequest]:
        """Return the same rows as `numbered`, without numbers."""
        return [row for _, row in self.numbered(since=since, actor=actor, session=session, most=most)]

    def verify(self, head: str = "", trusts: Callable[[str], bool] | None = None) -> TrailCheck:
        """Check each row against the previous one, and the trail against a head that was noted earlier.

        Args:
            head: the noted one.
            trusts: tells whether a key signs for this home; None to leave signatures out.

        Raises:
            InvalidArgument: the head does not have the form of one.
            StoreError: the trail cannot be read.
        """
        noted = _HEAD.fullmatch(head)
        if head and noted is None:
            raise InvalidArgument(
                "cannot check against that head: it is not NUMBER:HASH",
                hint="`holdfast audit verify` prints one",
            )
        faults, count, last, before = [], 0, 0, FIRST_HASH
        wanted = {} if (origin := origin_of(self._folder)) is None else origin.heads(self._folder)
        wanted |= {int(noted[1]): noted[2]} if noted else {}
        check = HeadsCheck([] if trusts is None else self._heads(), trusts or (lambda _: True))
        for seq, request, hash_ in self._chain():
            if seq != last + 1:
                faults.append(f"rows {last + 1} to {seq - 1} are missing")
            if request.hashed(before) != hash_:
                faults.append(f"row {seq} was changed, or one before it was removed")
            if wanted.get(seq, hash_) != hash_:
                faults.append(f"row {seq} differs from the noted one")
            faults += check.see(seq, hash_)
            count, last, before = count + 1, seq, hash_
        if wanted and max(wanted) > last:
            faults.append(f"rows {last + 1} to {max(wanted)} are missing at the end")
        faults += check.end(last) if trusts is not None else []
        return TrailCheck(count, f"{last}:{before}", tuple(faults), check.matching)

    def _heads(self) -> list[SignedHead]:
        with self._file.reading() as db:
            return [] if db is None else signed_heads.read(db)

    def _chain(self) -> Iterator[tuple[int, AuditedRequest, str]]:
        with self._file.reading() as db:
            for row in db.execute("SELECT * FROM requests ORDER BY seq") if db else ():
                yield row["seq"], _read(row), row["hash"]

    def _write_all(self) -> None:
        ended = False
        while not ended:
            rows = [self._waiting.get()]
            if rows[0] is not None:
                time.sleep(GATHER_SECONDS)
            with suppress(queue.Empty):
                while len(rows) < MOST_AT_ONCE and rows[-1] is not None:
                    rows.append(self._waiting.get_nowait())
            ended = rows[-1] is None
            self._write([each for each in rows if each is not None])

    def _write(self, rows: Sequence[AuditedRequest]) -> None:
        """Write rows. A full disk keeps the server answering: the number of lost rows is a row of its own."""
        lost, self._dropped = self._dropped, 0
        if lost:
            rows = [*rows, AuditedRequest(time.time(), "system", "", "LOST", f"{lost} rows", "", 0, "", 0.0)]
        if not rows:
            return
        try:
            self._append(rows)
        except StoreError:
            self._dropped += lost + len(rows) - bool(lost)

    def _append(self, rows: Iterable[AuditedRequest]) -> None:
        with self._file.writing() as db:
            end = db.execute("SELECT seq, hash FROM requests ORDER BY seq DESC LIMIT 1").fetchone()
            seq, before = (0, FIRST_HASH) if end is None else (int(end["seq"]), str(end["hash"]))
            for each in rows:
                seq, before = seq + 1, each.hashed(before)
                values = (seq, *asdict(each).values(), before)
                db.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            if self._signer is not None:
                signed_heads.sign(db, self._signer, seq, before)
        with suppress(StoreError):  # the next minute's will do
            if (origin := origin_of(self._folder)) is not None:
                origin.note_head(self._folder, seq, before)


def _read(row: sqlite3.Row) -> AuditedRequest:
    return AuditedRequest(*tuple(row)[1:-1])


def _is_of(actor: str, who: str) -> bool:
    return who == actor or who.startswith((f"{actor}/", f"{actor}:"))
