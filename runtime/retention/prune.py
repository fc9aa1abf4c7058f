"""Pruning of automatic snapshots that a policy no longer keeps, or that exceed a quota; and the
quota of a home.

Snapshots that were taken by hand, are pinned, or are still needed never expire.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from holdfast.base import private_files
from holdfast.errors import QuotaExceeded, SnapshotInUse, StoreError
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store import quotas
from holdfast.runtime.store.policy import Policy

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


FILE = "settings.json"


def overdue(context: Context) -> Iterator[tuple[SessionRow, SnapshotRow]]:
    """Yield the automatic snapshots that the policies of their sessions no longer keep."""
    store = context.store
    of_sessions = {row.session_id for row in store.snapshots() if automatic(row)}
    needs = _needs(context)
    for session in store.sessions(removed=True):
        if session.id in of_sessions:
            yield from ((session, row) for row in _overdue(context, session, needs))


def expire(context: Context, session: SessionRow) -> list[SnapshotRow]:
    """Remove the overdue snapshots of a session; used ones are removed the next time."""
    return let_go(context, _overdue(context, session, _needs(context)))


def _overdue(context: Context, session: SessionRow, needs: Collection[str]) -> list[SnapshotRow]:
    mine = context.store.snapshots(session.id)
    return expired(mine, Policy.of(session.details), needs, datetime.now(UTC))


def check_room(context: Context, session: SessionRow) -> None:
    """Check before a capture that there is room, or would be without automatic snapshots.

    Raises:
        QuotaExceeded: there would not be enough.
    """
    for limit in _limits(context, session):
        _, missing = _room(context, limit, 1, _needs(context))
        if missing:
            raise _exceeded(session, limit, missing)


def make_room(context: Context, session: SessionRow, taken: SnapshotRow, *, must: bool = False) -> None:
    """Remove the oldest automatic snapshots after a capture until all fit; the new one if they cannot.

    Args:
        context: the context of the call.
        session: the session that was captured.
        taken: the new snapshot.
        must: keep the new snapshot in any case, because it holds the only copy of the session.

    Raises:
        QuotaExceeded: the new snapshot did not fit, and was removed.
    """
    for limit in _limits(context, session):
        going, missing = _room(context, limit, 0, {*_needs(context), taken.id})
        if not missing:
            let_go(context, going)
        elif not must:
            let_go(context, [taken])
            raise _exceeded(session, limit, missing)


def _room(
    context: Context, limit: _Limit, wanted: int, keep: Collection[str]
) -> tuple[list[SnapshotRow], int]:
    """Return `expiry.room` for a limit. Apparent excess is packed first, and can turn out small."""
    going, missing = room(limit.rows, limit.quota, wanted, keep)
    if (going or missing) and any(snapshot_storage.unpacked(row) for row in limit.rows):
        rows = [snapshot_storage.settle(context, row) for row in limit.rows]
        return room(rows, limit.quota, wanted, keep)
    return going, missing


def let_go(context: Context, rows: Iterable[SnapshotRow]) -> list[SnapshotRow]:
    """Remove snapshots, except for used ones."""
    gone = [row for row in rows if let_go_untidily(context, row)]
    if gone:
        snapshot_storage.sweep_images(context)
        snapshot_storage.tidy(context)
    return gone


def let_go_untidily(context: Context, row: SnapshotRow) -> bool:
    """Remove a snapshot unless it is in use, and leave its pages of memory to the next sweep."""
    try:
        snapshot_storage.remove_snapshot(context, row, alone=False)
    except SnapshotInUse:
        return False
    return True


def _needs(context: Context) -> set[str]:
    return needed(context.store.sessions())


class _Limit(NamedTuple):
    """A limit that applies: whose it is, the snapshots that count, oldest first, and the bytes."""

    whose: str
    rows: Sequence[SnapshotRow]
    quota: int


def _limits(context: Context, session: SessionRow) -> list[_Limit]:
    own, all_ = Policy.of(session.details).quota, quota(context.home)
    user = str(session.details.get("by") or "")
    of_user = quotas.read(context.home.place).of(user).disk
    if own is None and all_ is None and of_user is None:
        return []
    rows = context.store.snapshots()
    mine = [row for row in rows if row.session_id == session.id]
    found: list[_Limit] = []
    if own is not None:
        found.append(_Limit(f"session {session.name}", mine, own))
    if of_user is not None:
        theirs = {each.id for each in context.store.sessions(removed=True) if each.details.get("by") == user}
        found.append(_Limit(user, [row for row in rows if row.session_id in theirs], of_user))
    if all_ is not None:
        found.append(_Limit("this home", rows, all_))
    return found


def _exceeded(session: SessionRow, limit: _Limit, missing: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"cannot snapshot session {session.name}: the snapshots of {limit.whose} would "
        f"exceed their quota of {limit.quota} bytes by {missing}",
        hint="`holdfast rmi` or `unpin` some (`holdfast snapshots` has their sizes), or raise the limit: "
        "`holdfast quota`, `holdfast quota set --user`, `holdfast policy S --quota`",
    )


def automatic(row: SnapshotRow) -> bool:
    """Check whether the snapshot was taken automatically."""
    return row.details.auto is not None


def needed(sessions: Iterable[SessionRow]) -> set[str]:
    """Return the snapshots that existing sessions were made from, or are suspended in."""
    return {row.parent_snapshot_id for row in sessions if row.parent_snapshot_id and row.state != "removed"}


def removable(snapshots: Iterable[SnapshotRow], keep: Collection[str]) -> list[SnapshotRow]:
    """Return the snapshots that can be removed automatically, oldest first."""
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
    """Return the removals that make `wanted` more bytes fit into a quota, and the bytes still missing.

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


def quota(home: Home) -> int | None:
    """Return the limit of bytes for all snapshots; None without a limit.

    Raises:
        StoreError: the file cannot be read. An unknown limit does not count as none.
    """
    path = home.root / FILE
    try:
        found = json.loads(path.read_text()).get("quota")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error}", hint="`holdfast quota SIZE` rewrites it") from error
    return found if isinstance(found, int) and found > 0 else None


def set_quota(home: Home, size: int | None) -> None:
    """Set or lift the limit atomically.

    Raises:
        StoreError: the file cannot be written.
    """
    path = home.root / FILE
    try:
        private_files.replace(path, json.dumps({"quota": size}))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
