"""All snapshots and sessions of a home with what is known of each, assembled from store and journals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.runtime.history.lineage import family, parent
from holdfast.runtime.history.lineage.between import KINDS, OrderedEntries, Ran
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.sessions import health
from holdfast.runtime.store.rows import SessionRow, SnapshotRow
from holdfast.runtime.store.timelines import journal_of, names_of_lives

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


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
        """Return the part of one session: its past, its snapshots, and what continues from these."""
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
        """Return what is known of one beyond its row."""
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
    above |= {session.id: parent.before(session, snapshots) for session in everyone}
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
    """Summarize what was run between each snapshot or session and the one above it."""
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
    """Return what distinguishes a snapshot from most: that it is kept, and a state other than ready. Pure."""
    kept = ["template" if row.details.template else "pinned"] if row.pinned else []
    return kept + [row.state] * (row.state != "ready")


def why(row: SnapshotRow) -> str:
    """Say why a snapshot was taken: the caller's reason, or that of the policy that took it. Pure."""
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
    "rewind": "before going back to {}",
}
