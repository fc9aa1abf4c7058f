"""The parent of a session's next snapshot.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.runtime.store import timelines
from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def before(session: SessionRow, snapshots: Sequence[SnapshotRow]) -> str | None:
    """Return the last one taken since the session was made or restored, else the one it was restored from.

    A session that went back to an earlier snapshot has later ones of its own that are not its past any more:
    those of another generation.
    """
    mine = [row.id for row in snapshots if continues(session, row)]
    return mine[-1] if mine else timelines.predecessor(session, {row.id for row in snapshots})


def continues(session: SessionRow, snapshot: SnapshotRow) -> bool:
    """Check whether a session continues from one of its own: the state it went back from is not its past."""
    same = snapshot.details.generation == session.generation
    return same and snapshot.session_id == session.id
