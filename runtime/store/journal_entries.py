"""Entries of journals in the store, and where sessions branched off."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from holdfast.runtime.store import schema
from holdfast.runtime.store.database import Database
from holdfast.runtime.store.entry import Told
from holdfast.runtime.store.timelines import Branch

BATCH = 2000
"""Entries that are written in one transaction, about 20 ms."""
PAGE = 500
"""Entries that are in memory while they are read."""
ROW = 64
"""Bytes of an entry besides its body, in the table and its index."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry as it is kept; `id` grows with the order of writing."""

    id: int
    session_id: str
    seq: int
    host: bool
    at: float
    kind: str
    actor: str | None
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries are read; what is None is not asked for.

    `after`: behind that number; what the host did has the number of the entry before it, so it comes behind.
    `actor`: that one, or all of that kind. `since`: seconds of the Unix clock.
    """

    after: int | None = None
    kinds: Iterable[str] | None = None
    actor: str | None = None
    since: float | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """As the database takes them."""
        table = schema.entries
        found: list[ColumnElement[bool]] = []
        if self.after is not None:
            found.append(or_(table.c.seq > self.after, and_(table.c.seq == self.after, table.c.host)))
        if self.kinds is not None:
            found.append(table.c.kind.in_(list(self.kinds)))
        if self.actor is not None:
            of_kind = table.c.actor.startswith(f"{self.actor}:", autoescape=True)
            found.append(or_(table.c.actor == self.actor, of_kind))
        if self.since is not None:
            found.append(table.c.at >= self.since)
        return found


class Entries:
    """What the store knows of journals."""

    def __init__(self, database: Database) -> None:
        self._reading = database.reading
        self._writing = database.writing

    def last(self, session_id: str) -> int:
        """Number of the newest entry that is kept of what a session wrote; 0 if there is none."""
        with self._reading() as db:
            return self._last(db, session_id)

    def take(self, session_id: str, found: Iterable[Told]) -> int:
        """Keep what a session wrote, except what is kept already. Returns how many are new.

        In several transactions: others write to the database, too.
        """
        count, source = 0, iter(found)
        while batch := list(islice(source, BATCH)):
            count += self._take(session_id, batch)
        return count

    def _take(self, session_id: str, found: list[Told]) -> int:
        table = schema.entries
        with self._writing() as db:
            last = self._last(db, session_id)
            rows = []
            for told in found:
                if told.seq > last:
                    last = told.seq
                    rows.append(
                        {
                            "session_id": session_id,
                            "seq": told.seq,
                            "host": False,
                            "at": told.at,
                            "kind": told.kind,
                            "actor": told.actor,
                            "body": told.body,
                        }
                    )
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
        """Write down what this host did, behind an entry of the session or its newest."""
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
        """Write down times and bodies behind the session's newest entry, in one transaction.

        The host's entries of that kind beyond the newest `most` are forgotten.
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
        """The entries of some sessions, of some kinds or all, each session's in order."""
        return list(self.stream(session_ids, Wanted(kinds=kinds)))

    def stream(
        self, session_ids: Iterable[str], wanted: Wanted, *, by_time: bool = False, newest_first: bool = False
    ) -> Generator[EntryRow]:
        """The entries of some sessions one after the other, in the order of their numbers or of time.

        The database is read meanwhile, and not written: an iteration that is left early should be closed.
        """
        table = schema.entries
        order: list[Column[Any]] = [table.c.seq, table.c.host, table.c.id]
        if by_time:
            order.insert(0, table.c.at)
        ordered = [column.desc() for column in order] if newest_first else order
        query = select(table).where(table.c.session_id.in_(list(session_ids)), *wanted.conditions())
        with self._reading() as db:
            for row in db.execution_options(yield_per=PAGE).execute(query.order_by(*ordered)):
                yield EntryRow(**{**row._mapping, "body": json.loads(row.body)})

    def weight(self, session_id: str) -> tuple[int, int]:
        """How many entries are kept of what a session wrote, and how many bytes they take."""
        table = schema.entries
        mine = (table.c.session_id == session_id) & table.c.host.is_(False)
        total = func.coalesce(func.sum(func.length(table.c.body) + ROW), 0)
        with self._reading() as db:
            count, weight = db.execute(select(func.count(), total).where(mine)).one()
            return int(count), int(weight)

    def number_of(self, session_id: str, place: int) -> int:
        """The number of the entry at a place, from 0, among those a session wrote; 0 if there is none."""
        table = schema.entries
        mine = (table.c.session_id == session_id) & table.c.host.is_(False)
        query = select(table.c.seq).where(mine).order_by(table.c.seq).offset(place).limit(1)
        with self._reading() as db:
            return int(db.execute(query).scalar() or 0)

    def drop(self, session_id: str, before: int) -> int:
        """Forget what a session wrote before an entry. Returns how many entries that were."""
        table = schema.entries
        old = (table.c.session_id == session_id) & table.c.host.is_(False) & (table.c.seq < before)
        with self._writing() as db:
            return db.execute(delete(table).where(old)).rowcount

    def bytes(self) -> int:
        """Bytes the whole database uses."""
        with self._reading() as db:
            pages, free, size = (
                int(db.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def forget(self, session_id: str) -> None:
        """Forget all entries of a session, also the host's."""
        with self._writing() as db:
            db.execute(delete(schema.entries).where(schema.entries.c.session_id == session_id))

    # Branches.

    def branch(self, session_id: str, snapshot_id: str, branch: Branch) -> None:
        """Write down where a new session goes on from."""
        with self._writing() as db:
            db.execute(delete(schema.branches).where(schema.branches.c.session_id == session_id))
            values = {"parent_session_id": branch.parent, "position": branch.position, "at": branch.at}
            db.execute(
                insert(schema.branches).values(session_id=session_id, snapshot_id=snapshot_id, **values)
            )

    def moved(self, session_id: str, position: int) -> None:
        """Correct where a session branched off: its first own entry tells it exactly."""
        table = schema.branches
        with self._writing() as db:
            db.execute(update(table).where(table.c.session_id == session_id).values(position=position))

    def branches(self) -> dict[str, Branch]:
        """Where sessions branched off, by session."""
        with self._reading() as db:
            return {
                row.session_id: Branch(row.parent_session_id, row.position, row.at)
                for row in db.execute(select(schema.branches))
            }

    def _last(self, db: Connection, session_id: str) -> int:
        table = schema.entries
        mine = (table.c.session_id == session_id) & table.c.host.is_(False)
        return int(db.execute(select(func.coalesce(func.max(table.c.seq), 0)).where(mine)).scalar_one())

    def _place(self, db: Connection, session_id: str) -> int:
        """Where a session without an entry of its own begins is where it branched off."""
        table = schema.branches
        begun = select(table.c.position).where(table.c.session_id == session_id)
        return self._last(db, session_id) or int(db.execute(begun).scalar() or 0)
