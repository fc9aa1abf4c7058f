"""The journal of a session as it is asked for: its line, or all timelines of its family; filtered."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import SessionNotFound
from holdfast.runtime.journal.entry import Entry
from holdfast.runtime.journal.lines import family_of, line_of
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.refs import resolve
from holdfast.runtime.store import life

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.store.entries import EntryRow
    from holdfast.runtime.store.rows import SessionRow


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries are wanted. Pure."""

    after: int | None = None
    kinds: Collection[str] | None = None
    actor: str | None = None
    since: float | None = None
    grep: str | None = None

    def takes(self, entry: Entry) -> bool:
        """Whether this one is."""
        if self.after is not None and entry.seq + entry.host <= self.after:  # the host's come behind
            return False
        if self.kinds is not None and entry.kind not in self.kinds:
            return False
        if self.actor is not None and not _fits(entry.actor, self.actor):
            return False
        if self.since is not None and entry.at < self.since:
            return False
        return self.grep is None or self.grep.lower() in _text(entry).lower()


def read(
    controller: Holdfast, session_id: str, wanted: Filter, *, all_timelines: bool = False
) -> list[Entry]:
    """The entries of a session's line, oldest first; with those of other timelines, each marked."""
    store = controller.store
    branches = store.entries.branches()
    line = line_of(session_id, branches)
    ids = [part.session_id for part in line]
    if all_timelines:
        ids += sorted(family_of(session_id, branches) - set(ids))
    for each in ids:
        mirror(store, controller.home, each)
    branches = store.entries.branches()  # what was just read tells exactly where sessions branched off
    parts = {part.session_id: (place, part) for place, part in enumerate(line_of(session_id, branches))}
    names = life.names(store.sessions(removed=True))
    found: list[tuple[tuple[float, int], Entry]] = []
    for row in store.entries.of(ids):
        place, part = parts.get(row.session_id, (len(parts), None))
        current = part is not None and part.covers(row.seq, row.at, host=row.host)
        if not current and not all_timelines:
            continue
        entry = _entry(row, names.get(row.session_id, row.session_id), current=current)
        if wanted.takes(entry):
            # A line is in the order of its numbers; timelines meet in the order of time.
            found.append(((row.at, 0) if all_timelines else (place, 0), entry))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


def find(controller: Holdfast, ref: str) -> SessionRow:
    """The session meant by ref; one that was removed if there is no other. Raises SessionNotFound."""
    try:
        return controller.session_row(ref)
    except SessionNotFound:
        rows = [row for row in controller.store.sessions(removed=True) if row.state == "removed"]
        newest = {row.name: row.id for row in rows}
        if ref in newest:
            return next(row for row in rows if row.id == newest[ref])
        known = {row.id: row for row in rows}
        return known[resolve(ref, ((row.id, row.name) for row in rows))]


def _entry(row: EntryRow, name: str, *, current: bool) -> Entry:
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


def _fits(actor: str | None, wanted: str) -> bool:
    return actor is not None and (actor == wanted or actor.partition(":")[0] == wanted)


def _text(entry: Entry) -> str:
    return json.dumps(entry.as_dict(), ensure_ascii=False, default=str)
