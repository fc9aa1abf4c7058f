"""The entries of sessions that make up the past of a session, and its earlier lives.  Pure; `lives` writes
them.

A restored session continues where its snapshot was taken: its past is that of the captured session up to
that point, and so on. Later entries there belong to another timeline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from holdfast.base.value_classes import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a session branched off: after entry `position` of its parent, at a time."""

    parent: str
    position: int
    at: float


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A session's share in a line: all of its own entries, or those up to a number and a time."""

    session_id: str
    position: int | None = None
    at: float | None = None

    def covers(self, seq: int, at: float, *, host: bool) -> bool:
        """Check whether an entry of the session belongs to the line."""
        if self.position is None or self.at is None:
            return True
        return at <= self.at if host else seq <= self.position


def line_of(session_id: str, branches: Mapping[str, Branch]) -> list[TimelinePart]:
    """Return the parts of a session's line, oldest first; the last is all of its own."""
    parts = [TimelinePart(session_id)]
    seen = {session_id}
    branch = branches.get(session_id)
    while branch is not None and branch.parent not in seen:
        seen.add(branch.parent)
        parts.append(TimelinePart(branch.parent, branch.position, branch.at))
        branch = branches.get(branch.parent)
    return parts[::-1]


def family_of(session_id: str, branches: Mapping[str, Branch]) -> set[str]:
    """Return all sessions that share a past with this one."""
    root = line_of(session_id, branches)[0].session_id
    return {
        other for other in {session_id, root, *branches} if line_of(other, branches)[0].session_id == root
    }


def journal_of(snapshot: SnapshotRow) -> str:
    """Return the session whose journal covers the time before a snapshot, or an earlier life of one."""
    return str(snapshot.details.life or snapshot.session_id)


def names_of_lives(sessions: Iterable[SessionRow]) -> dict[str, str]:
    """Return names by the ids of sessions and of their earlier lives."""
    found: dict[str, str] = {}
    for row in sessions:
        found |= {row.id: row.name, **{str(life["id"]): row.name for life in row.details.lives}}
    return found


def of_life(sessions: Iterable[SessionRow], life: str) -> SessionRow | None:
    """Return the session that has this id, or has it for an earlier life; None if unknown."""
    return next(
        (row for row in sessions if row.id == life or any(each["id"] == life for each in row.details.lives)),
        None,
    )


def rewound_at(session: SessionRow) -> float:
    """Return when a session was last rewound, in Unix seconds; 0 if it never was."""
    return float(session.details.rewound.get("at", 0.0))


def resumes_after(session: SessionRow) -> int:
    """Return the number of the journal entry it was last rewound to."""
    return int(session.details.rewound.get("position", 0))


def predecessor(session: SessionRow, known: Collection[str]) -> str | None:
    """Return the predecessor of a session: the snapshot it was made from, or the nearest existing
    one before.
    """
    if session.parent_snapshot_id in known:
        return session.parent_snapshot_id
    ancestor = session.details.ancestor
    return ancestor if ancestor in known else None
