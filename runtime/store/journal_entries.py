"""Journal entries in the store, and the points where sessions branched off."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from holdfast.base.value_classes import as_table
from holdfast.runtime.store import schema
from holdfast.runtime.store.database import Database
from holdfast.runtime.store.entry import CheckedLine
from holdfast.runtime.store.timelines import Branch

BATCH = 2000
"""Entries written in one transaction, about 20 ms."""
PAGE = 500
"""Entries held in memory while reading."""
ROW = 64
"""Bytes of an entry in addition to its body, in the table and its index."""


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

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the filter as conditions for the database."""
        table = schema.entries
        found: list[ColumnElement[bool]] = []
        if self.after is not None:
            found.append(or_(table.c.seq > self.after, and_(table.c.seq == self.after, table.c.host)))
        if self.kinds is not None:
            found.append(table.c.kind.in_(list(self.kinds)))
        if self.actor is not None:
            of_kind = table.c.actor.startswith(f"{self.actor}:", autoescape=True)
            of_run = table.c.actor.startswith(f"{self.actor}/", autoescape=True)
            found.append(or_(table.c.actor == self.actor, of_kind, of_run))
        if self.since is not None:
            found.append(table.c.at >= self.since)
        if self.host is not None:
            found.append(table.c.host.is_(self.host))
        return found


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
        """Store a session's entries, except those that are stored already. Return how many are new.

        Uses several transactions, since others also write to the database.
        """
        count, source = 0, iter(found)
        while batch := list(islice(source, BATCH)):
            count += self._take(session_id, batch)
        return count

    def _take(self, session_id: str, found: list[CheckedLine]) -> int:
        table = schema.entries
        with self._writing() as db:
            last = self._last(db, session_id)
            rows = []
            for entry in found:
                if entry.seq > last:
                    last = entry.seq
                    rows.append({"session_id": session_id, "host": False, **as_table(entry)})
            if rows:
                db.execute(insert(table), rows)
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
        """Record what this host did, after an entry of the session or its newest."""
        with self._writing() as db:
            seq = self._place(db, session_id) if position is None else position
            values = {"session_id": session_id, "seq": seq, "host": True, "at": at, "kind": kind}
            text = json.dumps(dict(body), separators=(",", ":"))
            db.execute(insert(schema.entries).values(**values, actor=actor, body=text))

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
        table = schema.entries
        mine = (table.c.session_id == session_id) & table.c.host & (table.c.kind == kind)
        kept = select(table.c.id).where(mine).order_by(table.c.id.desc()).limit(most)
        with self._writing() as db:
            values = {"session_id": session_id, "seq": self._place(db, session_id), "host": True}
            values |= {"kind": kind, "actor": actor}
            rows = [
                {**values, "at": at, "body": json.dumps(dict(body), separators=(",", ":"))}
                for at, body in found
            ]
            db.execute(insert(table), rows)
            db.execute(delete(table).where(mine & table.c.id.not_in(kept)))

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

        The database is read meanwhile, and cannot be written: close an iteration that is left early.
        """
        table = schema.entries
        order: list[Column[Any]] = [table.c.seq, table.c.host, table.c.id]
        if by_time:
            order.insert(0, table.c.at)
        ordered = [column.desc() for column in order] if newest_first else order
        query = select(table).where(table.c.session_id.in_(list(session_ids)), *wanted.conditions())
        with self._reading() as db:
            for row in db.execution_options(yield_per=PAGE).execute(query.order_by(*ordered)):
                yield EntryRow(**{**row._mapping, "body": _body(row.body)})

    def weight(self, session_id: str) -> tuple[int, int]:
        """Return how many entries of a session's own are stored, and the bytes they take."""
        table = schema.entries
        mine = (table.c.session_id == session_id) & table.c.host.is_(False)
        total = func.coalesce(func.sum(func.length(table.c.body) + ROW), 0)
        with self._reading() as db:
            count, weight = db.execute(select(func.count(), total).where(mine)).one()
            return int(count), int(weight)

    def number_of(self, session_id: str, place: int) -> int:
        """Return the number of the entry at a position, from 0, among a session's own; 0 if there is none."""
        table = schema.entries
        mine = (table.c.session_id == session_id) & table.c.host.is_(False)
        query = select(table.c.seq).where(mine).order_by(table.c.seq).offset(place).limit(1)
        with self._reading() as db:
            return int(db.execute(query).scalar() or 0)

    def drop(self, session_id: str, before: int) -> int:
        """Delete a session's entries before a number. Return how many."""
        table = schema.entries
        old = (table.c.session_id == session_id) & table.c.host.is_(False) & (table.c.seq < before)
        with self._writing() as db:
            return db.execute(delete(table).where(old)).rowcount

    def bytes(self) -> int:
        """Return the bytes that the whole database uses."""
        with self._reading() as db:
            pages, free, size = (
                int(db.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def forget(self, session_id: str) -> None:
        """Delete all entries of a session, including the host's."""
        with self._writing() as db:
            db.execute(delete(schema.entries).where(schema.entries.c.session_id == session_id))

    # Branches.

    def branch(self, session_id: str, snapshot_id: str, branch: Branch) -> None:
        """Record where a new session continues from."""
        with self._writing() as db:
            db.execute(delete(schema.branches).where(schema.branches.c.session_id == session_id))
            values = {"parent_session_id": branch.parent, "position": branch.position, "at": branch.at}
            db.execute(
                insert(schema.branches).values(session_id=session_id, snapshot_id=snapshot_id, **values)
            )

    def moved(self, session_id: str, position: int) -> None:
        """Correct where a session branched off: its own first entry is exact."""
        table = schema.branches
        with self._writing() as db:
            db.execute(update(table).where(table.c.session_id == session_id).values(position=position))

    def branches(self) -> dict[str, Branch]:
        """Return where sessions branched off, by session."""
        found = self._db.rows(
            select(schema.branches),
            lambda row: (row.session_id, Branch(row.parent_session_id, int(row.position), float(row.at))),
        )
        return dict(found)

    def _last(self, db: Connection, session_id: str) -> int:
        table = schema.entries
        mine = (table.c.session_id == session_id) & table.c.host.is_(False)
        return int(db.execute(select(func.coalesce(func.max(table.c.seq), 0)).where(mine)).scalar_one())

    def _place(self, db: Connection, session_id: str) -> int:
        """Return where a session without entries of its own begins: where it branched off."""
        table = schema.branches
        begun = select(table.c.position).where(table.c.session_id == session_id)
        return self._last(db, session_id) or int(db.execute(begun).scalar() or 0)


def _body(text: str) -> dict[str, Any]:
    """Return what an entry says; one whose text is damaged says that."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"damaged": True}
