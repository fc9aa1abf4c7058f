"""Pruning of automatic snapshots that a policy no longer keeps, or that exceed a quota."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import QuotaExceeded, SnapshotInUse
from holdfast.runtime.retention import expiry, home_settings
from holdfast.runtime.storage import remove_snapshot, snapshot_storage
from holdfast.runtime.store.policy import Policy

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def overdue(context: Context) -> Iterator[tuple[SessionRow, SnapshotRow]]:
    """Yield the automatic snapshots that the policies of their sessions no longer keep."""
    store = context.store
    of_sessions = {row.session_id for row in store.snapshots() if expiry.automatic(row)}
    needs = _needs(context)
    for session in store.sessions(removed=True):
        if session.id in of_sessions:
            yield from ((session, row) for row in _overdue(context, session, needs))


def expire(context: Context, session: SessionRow) -> list[SnapshotRow]:
    """Remove the overdue snapshots of a session; those in use are removed the next time."""
    return let_go(context, _overdue(context, session, _needs(context)))


def _overdue(context: Context, session: SessionRow, needs: Collection[str]) -> list[SnapshotRow]:
    mine = context.store.snapshots(session.id)
    return expiry.expired(mine, Policy.of(session.details), needs, datetime.now(UTC))


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
    """Return `expiry.room` for a limit. What seems too much is packed first: it may be little."""
    going, missing = expiry.room(limit.rows, limit.quota, wanted, keep)
    if (going or missing) and any(snapshot_storage.unpacked(row) for row in limit.rows):
        rows = [snapshot_storage.settle(context, row) for row in limit.rows]
        return expiry.room(rows, limit.quota, wanted, keep)
    return going, missing


def let_go(context: Context, rows: Iterable[SnapshotRow]) -> list[SnapshotRow]:
    """Remove snapshots, except those in use."""
    gone = [row for row in rows if let_go_untidily(context, row)]
    if gone:
        snapshot_storage.sweep_images(context)
        snapshot_storage.tidy(context)
    return gone


def let_go_untidily(context: Context, row: SnapshotRow) -> bool:
    """Remove a snapshot unless it is in use, and leave its pages of memory to the next sweep."""
    try:
        remove_snapshot.remove_snapshot(context, row, tidy=False)
    except SnapshotInUse:
        return False
    return True


def _needs(context: Context) -> set[str]:
    return expiry.needed(context.store.sessions())


class _Limit(NamedTuple):
    """A limit that applies: whose it is, the snapshots that count, oldest first, and the bytes."""

    whose: str
    rows: Sequence[SnapshotRow]
    quota: int


def _limits(context: Context, session: SessionRow) -> list[_Limit]:
    own, all_ = Policy.of(session.details).quota, home_settings.quota(context.home)
    if own is None and all_ is None:
        return []
    rows = context.store.snapshots()
    mine = [row for row in rows if row.session_id == session.id]
    found: list[_Limit] = []
    if own is not None:
        found.append(_Limit(f"session {session.name}", mine, own))
    if all_ is not None:
        found.append(_Limit("this home", rows, all_))
    return found


def _exceeded(session: SessionRow, limit: _Limit, missing: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"cannot snapshot session {session.name}: the snapshots of {limit.whose} would take {missing} bytes "
        f"more than the {limit.quota} they may",
        hint="`holdfast rmi` or `unpin` some (`holdfast snapshots` has their sizes), or raise the limit: "
        "`holdfast quota`, `holdfast policy S --quota`",
    )
