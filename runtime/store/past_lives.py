"""What the details of a session and of a snapshot tell of earlier lives.  Pure; `lives` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def journal_of(snapshot: SnapshotRow) -> str:
    """Whose journal tells of the time before a snapshot: a session, or an earlier life of one."""
    return str(snapshot.details.life or snapshot.session_id)


def names(sessions: Iterable[SessionRow]) -> dict[str, str]:
    """Names by the ids of sessions and of their earlier lives."""
    found: dict[str, str] = {}
    for row in sessions:
        found |= {row.id: row.name, **{str(life["id"]): row.name for life in row.details.lives}}
    return found


def rewound_at(session: SessionRow) -> float:
    """When a session last went back, in Unix seconds; 0 if it never did."""
    return float(session.details.rewound.get("at", 0.0))


def resumes_after(session: SessionRow) -> int:
    """The number of the journal entry it went back to when it last did."""
    return int(session.details.rewound.get("position", 0))
