"""The snapshots in a session's past, their names by position (`@-1`), and the parent of its next one.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.store import timelines
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

_RELATIVE = re.compile(r"@-([1-9]\d{0,5})")


def line(session: SessionRow, snapshots: Sequence[SnapshotRow]) -> list[SnapshotRow]:
    """Return the snapshots before a session's present, the last one first."""
    return ancestors(parent_of_next(session, snapshots), snapshots)


def ancestors(first: str | None, snapshots: Sequence[SnapshotRow]) -> list[SnapshotRow]:
    """Return the snapshot with this id, its parent, and so on, as far as they are there."""
    by_id = {row.id: row for row in snapshots}
    found: list[SnapshotRow] = []
    at = first
    seen: set[str] = set()
    while at is not None and at in by_id and at not in seen:
        seen.add(at)
        found.append(by_id[at])
        at = by_id[at].parent_snapshot_id
    return found


def includes(session: SessionRow, snapshot: SnapshotRow, snapshots: Sequence[SnapshotRow]) -> bool:
    """Check whether a snapshot is one of a session's past, or was taken of it in an earlier life."""
    return snapshot.session_id == session.id or snapshot in line(session, snapshots)


def check(session: SessionRow, snapshot: SnapshotRow, snapshots: Sequence[SnapshotRow]) -> None:
    """Check that a session can go back to a snapshot: one of its past, or taken of it in an earlier life.

    Raises:
        InvalidArgument: it belongs to another session.
    """
    if includes(session, snapshot, snapshots):
        return
    raise InvalidArgument(
        f"cannot rewind session {session.name}: snapshot {snapshot.name} is not in its lineage",
        hint=(
            "`holdfast snapshots --tree` shows it; `--force` goes there anyway, `holdfast "
            "restore` makes a new session"
        ),
    )


def relative(ref: str, session: SessionRow, snapshots: Sequence[SnapshotRow]) -> SnapshotRow | None:
    """Return the snapshot meant by `@-1` (the last one before the present), `@-2`, …; None for other text.

    Raises:
        SnapshotNotFound: there are not that many.
    """
    match = _RELATIVE.fullmatch(ref)
    if match is None:
        return None
    found, number = line(session, snapshots), int(match[1])
    if number > len(found):
        raise SnapshotNotFound(
            f"cannot find {plain(ref, 20)}: session {session.name} has {len(found)} snapshots in its past",
            hint="`holdfast snapshots --tree` shows them",
        )
    return found[number - 1]


def parent_of_next(session: SessionRow, snapshots: Sequence[SnapshotRow]) -> str | None:
    """Return the last one taken since the session was made or restored, else the one it was restored from.

    A session that went back to an earlier snapshot has later ones of its own that are not its past any
    more: an earlier generation's.
    """
    mine = [row.id for row in snapshots if continues(session, row)]
    return mine[-1] if mine else timelines.predecessor(session, {row.id for row in snapshots})


def continues(session: SessionRow, snapshot: SnapshotRow) -> bool:
    """Check whether a session continues from its own snapshot: the abandoned state is not its past."""
    same = snapshot.details.generation == session.generation
    return same and snapshot.session_id == session.id
