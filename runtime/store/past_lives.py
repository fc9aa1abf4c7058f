"""Earlier lives of sessions, as the details of sessions and snapshots record them.  Pure; `lives` writes
them.
"""

from __future__ import annotations

from collections.abc import Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def journal_of(snapshot: SnapshotRow) -> str:
    """Return the session whose journal covers the time before a snapshot, or an earlier life of one."""
    return str(snapshot.details.life or snapshot.session_id)


def names(sessions: Iterable[SessionRow]) -> dict[str, str]:
    """Return names by the ids of sessions and of their earlier lives."""
    found: dict[str, str] = {}
    for row in sessions:
        found |= {row.id: row.name, **{str(life["id"]): row.name for life in row.details.lives}}
    return found


def of_life(sessions: Iterable[SessionRow], life: str) -> SessionRow | None:
    """Return the session with this id, or of which this is an earlier life; None if neither is known."""
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
