"""All snapshots and sessions of a home, the known facts about each, and the commands between them.

Assembled from store and journals; the sums of past runs are pure.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table
from holdfast.runtime.history.lineage import family
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.sessions import health
from holdfast.runtime.store.rows import SessionRow, SnapshotRow
from holdfast.runtime.store.timelines import Branch, journal_of, line_of, names_of_lives

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.journal_entries import EntryRow


KINDS = {"command_started": "command", "cell_started": "code", "job_started": "command", "input": "text"}
"""Journal entries of things that were run, and the field with their text."""
_WORDS = {"command_started": "command", "cell_started": "cell", "job_started": "job", "input": "input"}
SAMPLES = 3
LONGEST = 60


@dataclass(frozen=True, slots=True)
class LineageOverview:
    """Snapshots and existing sessions, oldest first.

    `above` has the parent of each, if it exists; `ran` what was run since then; `names` the names of all
    sessions that ever existed, by id.
    """

    snapshots: tuple[SnapshotRow, ...] = ()
    sessions: tuple[SessionRow, ...] = ()
    above: Mapping[str, str | None] = field(default_factory=dict)
    ran: Mapping[str, Ran] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, session: SessionRow) -> LineageOverview:
        """Return the part of one session: its past, its snapshots, and their successors."""
        past = {row.id for row in family.line(session, self.snapshots)}
        mine = {row.id for row in self.snapshots if row.session_id == session.id} | past
        for start in list(mine):
            at = self.above.get(start)
            while at is not None and at not in mine:
                mine.add(at)
                at = self.above.get(at)
        return LineageOverview(
            tuple(row for row in self.snapshots if row.id in mine),
            tuple(row for row in self.sessions if row.id == session.id or self.above.get(row.id) in mine),
            self.above,
            self.ran,
            self.names,
        )

    def as_dict(self, row: SnapshotRow | SessionRow) -> dict[str, Any]:
        """Return the known facts about one, beyond its row."""
        return {"parent_id": self.above.get(row.id), "ran": self.ran.get(row.id, Ran()).as_dict()}


def overview(context: Context, *, with_ran: bool = True) -> LineageOverview:
    """Read the store and, unless `with_ran` is false, the journals as they are now."""
    store = context.store
    snapshots = store.snapshots()
    everyone = health.observe_all(context)
    known = {row.id for row in snapshots}
    above: dict[str, str | None] = {
        row.id: row.parent_snapshot_id if row.parent_snapshot_id in known else None for row in snapshots
    }
    above |= {session.id: family.parent_of_next(session, snapshots) for session in everyone}
    ran = _ran(context, snapshots, everyone, above) if with_ran else {}
    return LineageOverview(
        tuple(snapshots), tuple(everyone), above, ran, names_of_lives(store.sessions(removed=True))
    )


def _ran(
    context: Context,
    snapshots: Sequence[SnapshotRow],
    everyone: Sequence[SessionRow],
    above: Mapping[str, str | None],
) -> dict[str, Ran]:
    """Summarize the runs between each snapshot or session and the one above it."""
    store = context.store
    for row in everyone:
        if row.state == "running":
            mirror(store, context.home, row.id)
    branches = store.entries.branches()
    journals = {journal_of(row) for row in snapshots} | {row.id for row in everyone}
    journals |= {branch.parent for branch in branches.values()}
    entries = OrderedEntries(store.entries.of(journals, kinds=KINDS), branches)
    places = {row.id: _place(row) for row in snapshots}

    def since(row_id: str) -> int:
        return places.get(above[row_id] or "") or 0

    ran = {
        taken.id: entries.ran(journal_of(taken), since(taken.id), place)
        for taken in snapshots
        if (place := places[taken.id]) is not None
    }
    return ran | {session.id: entries.ran(session.id, since(session.id)) for session in everyone}


def marks(row: SnapshotRow) -> list[str]:
    """Return the unusual properties of a snapshot: that it is kept, and a state other than ready. Pure."""
    kept = ["template" if row.details.template else "pinned"] if row.pinned else []
    return kept + [row.state] * (row.state != "ready")


def why(row: SnapshotRow) -> str:
    """Return the reason for a snapshot: the caller's, or the policy's that took it. Pure."""
    auto = row.details.auto
    if auto is None:
        return row.reason or ""
    what = str(auto.get("what", ""))
    return row.reason or _TRIGGERS.get(str(auto.get("trigger")), "automatic: {}").format(what)


def _place(row: SnapshotRow) -> int | None:
    return row.details.moment.journal_seq


_TRIGGERS = {
    "risky": "before {}",
    "failure": "after failure: {}",
    "every": "after {}",
    "idle": "idle",
    "sleep": "put to sleep ({})",
    "rewind": "before going back to {}",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """The number of commands run, and the first of them, truncated to first lines."""

    commands: int = 0
    cells: int = 0
    jobs: int = 0
    inputs: int = 0
    samples: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.commands or self.cells or self.jobs or self.inputs)

    @property
    def text(self) -> str:
        """The summary as one line; empty if no commands ran."""
        counts = zip((self.commands, self.cells, self.jobs, self.inputs), _WORDS.values(), strict=True)
        counted = ", ".join(
            f"{number} {word}{'s' if number > 1 else ''}" for number, word in counts if number
        )
        more = "; …" if self.samples and self.commands + self.cells + self.jobs > len(self.samples) else ""
        return f"{counted}: {'; '.join(self.samples)}{more}" if self.samples else counted

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for programs."""
        return as_table(self)


class OrderedEntries:
    """Journal entries, ordered for queries about stretches of them."""

    def __init__(self, entries: Iterable[EntryRow], branches: Mapping[str, Branch]) -> None:
        """Add entries that are in order within each session."""
        self._branches = branches
        self._of: dict[str, list[EntryRow]] = {}
        for entry in entries:
            self._of.setdefault(entry.session_id, []).append(entry)

    def ran(self, journal: str, after: int, until: int | None = None) -> Ran:
        """Summarize what was run in the line of a journal after one entry, up to another."""
        found: list[EntryRow] = []
        for part in line_of(journal, self._branches):
            last = until if part.position is None else part.position
            found += self._stretch(part.session_id, after, _least(last, until))
        return summed(found)

    def _stretch(self, journal: str, after: int, until: int | None) -> list[EntryRow]:
        entries = self._of.get(journal, [])
        begin = bisect_right(entries, after, key=_number)
        return entries[begin : None if until is None else bisect_right(entries, until, key=_number)]


def _number(entry: EntryRow) -> int:
    return entry.seq


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def summed(entries: Sequence[EntryRow]) -> Ran:
    """Summarize these entries."""
    count = Counter(entry.kind for entry in entries)
    shown = (text for entry in entries if entry.kind != "input" and (text := _text_of(entry)))
    return Ran(
        count["command_started"],
        count["cell_started"],
        count["job_started"],
        count["input"],
        tuple(islice(shown, SAMPLES)),
    )


def _text_of(entry: EntryRow) -> str:
    value = entry.body.get(KINDS.get(entry.kind, ""), "")
    text = value if isinstance(value, str) else json.dumps(value)
    head, _, rest = text.strip().partition("\n")
    head = plain(head, LONGEST + 1)
    cut = len(head) > LONGEST or rest.strip()
    return f"{head[:LONGEST].rstrip()}…" if cut else head
