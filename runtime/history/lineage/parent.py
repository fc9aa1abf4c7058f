"""Which snapshot the next one of a session comes after.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.runtime.store import parents
from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def before(session: SessionRow, snapshots: Sequence[SnapshotRow]) -> str | None:
    """The last one taken since the session was made or restored, else the one it was restored from.

    A session that went back to an earlier snapshot has later ones of its own that are not before it any more:
    those of another generation.
    """
    mine = [row.id for row in snapshots if continues(session, row)]
    return mine[-1] if mine else parents.of_session(session, {row.id for row in snapshots})


def continues(session: SessionRow, snapshot: SnapshotRow) -> bool:
    """Whether a session continues from one of its own: what it went back from is not before it any more."""
    same = snapshot.details.generation == session.generation
    return same and snapshot.session_id == session.id
