"""Queries of a session's journal: its own line, or all timelines of its family; filtered."""

from __future__ import annotations

import json
from collections.abc import Collection, Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.base.resolve import resolve
from holdfast.errors import SessionNotFound
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.store import timelines
from holdfast.runtime.store.entry import Entry
from holdfast.runtime.store.journal_entries import EntryFilter
from holdfast.runtime.store.timelines import family_of, line_of

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.journal_entries import EntryRow
    from holdfast.runtime.store.rows import SessionRow


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of entries; as `Wanted`, and `grep`: only entries that contain the text."""

    after: int | None = None
    kinds: Collection[str] | None = None
    actor: str | None = None
    since: float | None = None
    grep: str | None = None

    def rows(self) -> EntryFilter:
        """Return the part of the filter that the database applies."""
        return EntryFilter(self.after, self.kinds, self.actor, self.since)

    def takes(self, entry: Entry) -> bool:
        """Check whether an entry that the database selected passes the rest of the filter."""
        return self.grep is None or self.grep.lower() in _text(entry).lower()


def read(
    context: Context,
    session_id: str,
    wanted: Filter,
    *,
    all_timelines: bool = False,
    limit: int | None = None,
) -> list[Entry]:
    """Return the entries of a session's line, oldest first; optionally also other timelines', marked.

    `limit`: return only this many of the newest.
    """
    store = context.store
    branches = store.entries.branches()
    line = line_of(session_id, branches)
    ids = [part.session_id for part in line]
    if all_timelines:
        ids += sorted(family_of(session_id, branches) - set(ids))
    for each in ids:
        mirror(store, context.home, each)
    branches = store.entries.branches()  # the entries just read say exactly where sessions branched off
    parts = {part.session_id: part for part in line_of(session_id, branches)}
    names = timelines.names_of_lives(store.sessions(removed=True))
    newest_first = limit is not None

    def chosen() -> Generator[Entry]:
        # A line is ordered by its numbers, part by part; timelines are merged by time.
        places = [ids] if all_timelines else [[each] for each in parts]
        for place in reversed(places) if newest_first else places:
            with closing(
                store.entries.stream(place, wanted.rows(), by_time=all_timelines, newest_first=newest_first)
            ) as rows:
                for row in rows:
                    part = parts.get(row.session_id)
                    current = part is not None and part.covers(row.seq, row.at, host=row.host)
                    if current or all_timelines:
                        entry = as_entry(row, names.get(row.session_id, row.session_id), current=current)
                        if wanted.takes(entry):
                            yield entry

    with closing(chosen()) as entries:
        found = list(islice(entries, limit))
    return found[::-1] if newest_first else found


def find(context: Context, ref: str) -> SessionRow:
    """Return the session that `ref` refers to; a removed one only if no other matches.

    Raises:
        SessionNotFound: there is none.
    """
    try:
        return context.session_row(ref)
    except SessionNotFound:
        rows = [row for row in context.store.sessions(removed=True) if row.state == "removed"]
        newest = {row.name: row.id for row in rows}
        if ref in newest:
            return next(row for row in rows if row.id == newest[ref])
        known = {row.id: row for row in rows}
        return known[resolve(ref, ((row.id, row.name) for row in rows))]


def as_entry(row: EntryRow, name: str, *, current: bool = True) -> Entry:
    """Return an entry as the store has it, of a session that is called `name` now."""
    return Entry(
        session_id=row.session_id,
        session=name,
        seq=row.seq,
        at=row.at,
        kind=row.kind,
        actor=row.actor,
        host=row.host,
        current=current,
        details=row.body,
    )


def _text(entry: Entry) -> str:
    return json.dumps(entry.as_dict(), ensure_ascii=False, default=str)
