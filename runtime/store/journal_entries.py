"""Journal entries in the store, and the points where sessions branched off."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from holdfast.base.value_classes import as_table
from holdfast.runtime.store import schema
from holdfast.runtime.store.database import Database
from holdfast.runtime.store.entry import CheckedLine
from holdfast.runtime.store.statements import Row, Statements
from holdfast.runtime.store.timelines import Branch

BATCH = 2000
"""Entries written in one transaction, about 20 ms."""
ROW = 64
"""Bytes of an entry in addition to its body, in the table and its index."""
_OWN = "session_id = ? AND NOT host"
"""The condition for a session's own entries."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry as it is stored; `id` grows with the order of writing."""

    id: int
    session_id: str
    seq: int
    host: bool
    at: float
    kind: str
    actor: str | None
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A filter of entries; None does not filter.

    `after`: later than that number; a host entry has the number of the entry before it, so it comes after it.
    `actor`: that one in any of its runs, or all of that kind. `since`: Unix seconds. `host`: written by this
    host, or by the session.
    """

    after: int | None = None
    kinds: Iterable[str] | None = None
    actor: str | None = None
    since: float | None = None
    host: bool | None = None

    def conditions(self) -> tuple[str, list[Any]]:
        """Return the filter as a condition for the database, and the values in it."""
        found: list[str] = []
        values: list[Any] = []
        if self.after is not None:
            found.append("(seq > ? OR (seq = ? AND host))")
            values += [self.after, self.after]
        if self.kinds is not None:
            kinds = list(self.kinds)
            found.append(f"kind IN ({_marks(kinds)})")
            values += kinds
        if self.actor is not None:
            found.append("(actor = ? OR SUBSTR(actor, 1, ?) IN (?, ?))")
            values += [self.actor, len(self.actor) + 1, f"{self.actor}:", f"{self.actor}/"]
        if self.since is not None:
            found.append("at >= ?")
            values.append(self.since)
        if self.host is not None:
            found.append("host = ?")
            values.append(self.host)
        return " AND ".join(found) or "TRUE", values


class Entries:
    """The journals in the store."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._reading = database.reading
        self._writing = database.writing

    def last(self, session_id: str) -> int:
        """Return the number of the newest entry of a session's own; 0 if there is none."""
        with self._reading() as db:
            return self._last(db, session_id)

    def take(self, session_id: str, found: Iterable[CheckedLine]) -> int:
        """Store a session's entries, except for already stored ones. Return the number of new ones.

        Uses several transactions, since others also write to the database.
        """
        count, source = 0, iter(found)
        while batch := list(islice(source, BATCH)):
            count += self._take(session_id, batch)
        return count

    def _take(self, session_id: str, found: list[CheckedLine]) -> int:
        with self._writing() as db:
            last = self._last(db, session_id)
            rows = []
            for entry in found:
                if entry.seq > last:
                    last = entry.seq
                    rows.append({"session_id": session_id, "host": False, **as_table(entry)})
            db.insert(schema.ENTRIES, *rows)
            return len(rows)

    def note(
        self,
        session_id: str,
        kind: str,
        at: float,
        *,
        actor: str | None,
        body: Mapping[str, Any],
        position: int | None = None,
    ) -> None:
        """Record an action of this host, after an entry of the session or its newest."""
        with self._writing() as db:
            seq = self._place(db, session_id) if position is None else position
            values = {"session_id": session_id, "seq": seq, "host": True, "at": at, "kind": kind}
            text = json.dumps(dict(body), separators=(",", ":"))
            db.insert(schema.ENTRIES, {**values, "actor": actor, "body": text})

    def note_many(
        self,
        session_id: str,
        kind: str,
        found: Iterable[tuple[float, Mapping[str, Any]]],
        *,
        actor: str,
        most: int,
    ) -> None:
        """Record times and bodies after the session's newest entry, in one transaction.

        Of the host's entries of that kind, only the newest `most` are kept.
        """
        mine = "session_id = ? AND host AND kind = ?"
        kept = f"SELECT id FROM entries WHERE {mine} ORDER BY id DESC LIMIT ?"  # noqa: S608 - of this module
        with self._writing() as db:
            values = {"session_id": session_id, "seq": self._place(db, session_id), "host": True}
            values |= {"kind": kind, "actor": actor}
            rows = [
                {**values, "at": at, "body": json.dumps(dict(body), separators=(",", ":"))}
                for at, body in found
            ]
            db.insert(schema.ENTRIES, *rows)
            of_kind = (session_id, kind)
            db.delete(schema.ENTRIES, f"{mine} AND id NOT IN ({kept})", *of_kind, *of_kind, most)

    def of(self, session_ids: Iterable[str], kinds: Iterable[str] | None = None) -> list[EntryRow]:
        """Return the entries of some sessions, of some kinds or all, each session's in order."""
        return list(self.stream(session_ids, EntryFilter(kinds=kinds)))

    def stream(
        self,
        session_ids: Iterable[str],
        wanted: EntryFilter,
        *,
        by_time: bool = False,
        newest_first: bool = False,
    ) -> Generator[EntryRow]:
        """Yield the entries of some sessions one by one, ordered by number or by time.

        The database is read during this, and cannot be written: close an iteration that is left early.
        """
        wanted_ids = list(session_ids)
        order = ["at", "seq", "host", "id"] if by_time else ["seq", "host", "id"]
        ordered = ", ".join(f"{name} DESC" if newest_first else name for name in order)
        condition, values = wanted.conditions()
        rest = f"WHERE session_id IN ({_marks(wanted_ids)}) AND {condition} ORDER BY {ordered}"
        with self._reading() as db:
            for row in db.rows(schema.ENTRIES, rest, *wanted_ids, *values):
                yield EntryRow(**{**row, "body": _body(row["body"])})

    def weight(self, session_id: str) -> tuple[int, int]:
        """Return the number of a session's own stored entries, and their bytes."""
        query = f"SELECT COUNT(*), COALESCE(SUM(LENGTH(body) + {ROW}), 0) FROM entries WHERE {_OWN}"  # noqa: S608
        with self._reading() as db:
            count, weight = db.run(query, (session_id,)).fetchone()
            return int(count), int(weight)

    def number_of(self, session_id: str, place: int) -> int:
        """Return the number of the entry at a position, from 0, among a session's own; 0 if there is none."""
        query = f"SELECT seq FROM entries WHERE {_OWN} ORDER BY seq LIMIT 1 OFFSET ?"  # noqa: S608
        with self._reading() as db:
            return int(db.value(query, session_id, place) or 0)

    def drop(self, session_id: str, before: int) -> int:
        """Delete a session's entries before a number. Return their count."""
        with self._writing() as db:
            return db.delete(schema.ENTRIES, f"{_OWN} AND seq < ?", session_id, before)

    def bytes(self) -> int:
        """Return the bytes that the whole database uses."""
        with self._reading() as db:
            pages, free, size = (
                int(db.value(f"PRAGMA {name}")) for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def forget(self, session_id: str) -> None:
        """Delete all entries of a session, including the host's."""
        with self._writing() as db:
            db.delete(schema.ENTRIES, "session_id = ?", session_id)

    # Branches.

    def branch(self, session_id: str, snapshot_id: str, branch: Branch) -> None:
        """Record where a new session continues from."""
        values = {"parent_session_id": branch.parent, "position": branch.position, "at": branch.at}
        with self._writing() as db:
            db.delete(schema.BRANCHES, "session_id = ?", session_id)
            db.insert(schema.BRANCHES, {"session_id": session_id, "snapshot_id": snapshot_id, **values})

    def moved(self, session_id: str, position: int) -> None:
        """Correct where a session branched off: its own first entry is exact."""
        with self._writing() as db:
            db.update(schema.BRANCHES, {"position": position}, "session_id = ?", session_id)

    def branches(self) -> dict[str, Branch]:
        """Return where sessions branched off, by session."""
        return dict(self._db.rows(_branch, schema.BRANCHES))

    def _last(self, db: Statements, session_id: str) -> int:
        query = f"SELECT COALESCE(MAX(seq), 0) FROM entries WHERE {_OWN}"  # noqa: S608
        return int(db.value(query, session_id))

    def _place(self, db: Statements, session_id: str) -> int:
        """Return where a session without entries of its own begins: where it branched off."""
        begun = "SELECT position FROM branches WHERE session_id = ?"
        return self._last(db, session_id) or int(db.value(begun, session_id) or 0)


def _branch(row: Row) -> tuple[str, Branch]:
    position, at = int(row["position"]), float(row["at"])
    return row["session_id"], Branch(row["parent_session_id"], position, at)


def _marks(values: list[str]) -> str:
    return ", ".join("?" * len(values))


def _body(text: str) -> dict[str, Any]:
    """Return the content of an entry; a damaged text is reported as such."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"damaged": True}
