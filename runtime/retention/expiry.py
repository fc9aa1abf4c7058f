"""Expiry of automatic snapshots: by age, and for lack of room.  Pure.

Snapshots that were taken by hand, are pinned, or are still needed never expire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.store.policy import Policy
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def automatic(row: SnapshotRow) -> bool:
    """Check whether the snapshot was taken automatically."""
    return row.details.auto is not None


def needed(sessions: Iterable[SessionRow]) -> set[str]:
    """Return the snapshots that existing sessions were made from, or are suspended in."""
    return {row.parent_snapshot_id for row in sessions if row.parent_snapshot_id and row.state != "removed"}


def removable(snapshots: Iterable[SnapshotRow], keep: Collection[str]) -> list[SnapshotRow]:
    """Return the snapshots that may be removed automatically, oldest first."""
    found = [row for row in snapshots if automatic(row) and not row.pinned and row.id not in keep]
    return sorted((row for row in found if row.state != "pending"), key=lambda row: (row.created_at, row.id))


def expired(
    snapshots: Sequence[SnapshotRow], policy: Policy, needs: Collection[str], now: datetime
) -> list[SnapshotRow]:
    """Return the snapshots of one session that its policy no longer keeps, oldest first.

    A snapshot that any rule keeps is kept. Times are compared with `now`; one from the future is young.

    Args:
        snapshots: all snapshots of the session.
        policy: the session's policy.
        needs: ids that are still needed.
        now: the present, in UTC.
    """
    mine = sorted((row for row in snapshots if automatic(row)), key=lambda row: (row.created_at, row.id))
    kept = {row.id for row in mine[max(0, len(mine) - policy.keep) :]}
    if policy.keep_for is not None:
        oldest = now - timedelta(seconds=policy.keep_for)
        kept |= {row.id for row in mine if row.created_at >= oldest}
    kept |= _last_of_each(mine, policy.hourly, "%Y-%m-%dT%H")
    kept |= _last_of_each(mine, policy.daily, "%Y-%m-%d")
    return [row for row in removable(mine, needs) if row.id not in kept]


def _last_of_each(snapshots: Sequence[SnapshotRow], count: int, form: str) -> set[str]:
    """Return the last snapshot of each of the latest `count` hours or days that have any."""
    last = {row.created_at.strftime(form): row.id for row in snapshots}
    return {last[when] for when in sorted(last, reverse=True)[:count]}


def room(
    snapshots: Sequence[SnapshotRow], quota: int, wanted: int, keep: Collection[str]
) -> tuple[list[SnapshotRow], int]:
    """Return what to remove so that `wanted` more bytes fit into a quota, and how many are still missing.

    If they do not fit in any case, nothing is removed.
    """
    over = sum(row.bytes for row in snapshots) + wanted - quota
    going: list[SnapshotRow] = []
    for row in removable(snapshots, keep):
        if over <= 0:
            break
        going.append(row)
        over -= row.bytes
    return ([], over) if over > 0 else (going, 0)
