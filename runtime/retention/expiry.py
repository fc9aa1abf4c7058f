"""Which automatic snapshots are kept for how long, and which go when there is no room.  Pure.

What somebody asked for by hand, what is pinned, and what something still needs is never among them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.store.policy import Policy
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def automatic(row: SnapshotRow) -> bool:
    """Whether nobody asked for it by hand."""
    return row.details.auto is not None


def needed(sessions: Iterable[SessionRow]) -> set[str]:
    """Snapshots that sessions which are there were made from, or are suspended in."""
    return {row.parent_snapshot_id for row in sessions if row.parent_snapshot_id and row.state != "removed"}


def removable(snapshots: Iterable[SnapshotRow], keep: Collection[str]) -> list[SnapshotRow]:
    """Those that may go by themselves, the oldest first."""
    found = [row for row in snapshots if automatic(row) and not row.pinned and row.id not in keep]
    return sorted((row for row in found if row.state != "pending"), key=lambda row: (row.created_at, row.id))


def expired(
    snapshots: Sequence[SnapshotRow], policy: Policy, needs: Collection[str], now: datetime
) -> list[SnapshotRow]:
    """Those of one session that its policy does not keep any longer, the oldest first.

    What one rule keeps, is kept. Times are compared with `now`; a snapshot from the future is young.

    Args:
        snapshots: of one session, all of them.
        policy: the session's.
        needs: ids that something needs.
        now: in UTC.
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
    """The last of each of the latest `count` hours or days in which there are any."""
    last = {row.created_at.strftime(form): row.id for row in snapshots}
    return {last[when] for when in sorted(last, reverse=True)[:count]}


def room(
    snapshots: Sequence[SnapshotRow], quota: int, wanted: int, keep: Collection[str]
) -> tuple[list[SnapshotRow], int]:
    """What is to go so that `wanted` bytes more fit into a quota, and how many bytes are missing then.

    If they do not fit whatever goes, nothing is to go.
    """
    over = sum(row.bytes for row in snapshots) + wanted - quota
    going: list[SnapshotRow] = []
    for row in removable(snapshots, keep):
        if over <= 0:
            break
        going.append(row)
        over -= row.bytes
    return ([], over) if over > 0 else (going, 0)
