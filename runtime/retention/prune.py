"""Pruning of automatic snapshots that a policy no longer keeps, or that exceed a quota."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.errors import QuotaExceeded, SnapshotInUse
from holdfast.runtime.retention import expiry, home_settings
from holdfast.runtime.storage import remove_snapshot
from holdfast.runtime.store.policy import Policy

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def overdue(context: Context, session: SessionRow) -> list[SnapshotRow]:
    """Return the automatic snapshots of a session that its policy no longer keeps."""
    store = context.store
    mine = [row for row in store.snapshots() if row.session_id == session.id]
    needs = expiry.needed(store.sessions())
    return expiry.expired(mine, Policy.of(session.details), needs, datetime.now(UTC))


def expire(context: Context, session: SessionRow) -> list[SnapshotRow]:
    """Remove the overdue snapshots; those in use are removed the next time."""
    return let_go(context, overdue(context, session))


def check_room(context: Context, session: SessionRow) -> None:
    """Check before a capture that there is room, or would be without automatic snapshots.

    Raises:
        QuotaExceeded: there would not be enough.
    """
    for whose, rows, quota in _limits(context, session):
        _, missing = expiry.room(rows, quota, 1, _needs(context))
        if missing:
            raise _exceeded(session, whose, quota, missing)


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
    for whose, rows, quota in _limits(context, session):
        going, missing = expiry.room(rows, quota, 0, {*_needs(context), taken.id})
        if not missing:
            let_go(context, going)
        elif not must:
            let_go(context, [taken])
            raise _exceeded(session, whose, quota, missing)


def let_go(context: Context, rows: Iterable[SnapshotRow]) -> list[SnapshotRow]:
    """Remove snapshots, except those in use."""
    gone = []
    for row in rows:
        with contextlib.suppress(SnapshotInUse):
            remove_snapshot.remove_snapshot(context, row)
            gone.append(row)
    return gone


def _needs(context: Context) -> set[str]:
    return expiry.needed(context.store.sessions())


def _limits(context: Context, session: SessionRow) -> list[tuple[str, Sequence[SnapshotRow], int]]:
    """Return the limits that apply: whose, the snapshots that count, and the bytes."""
    own, all_ = Policy.of(session.details).quota, home_settings.quota(context.home)
    if own is None and all_ is None:
        return []
    rows = context.store.snapshots()
    mine = [row for row in rows if row.session_id == session.id]
    found: list[tuple[str, Sequence[SnapshotRow], int]] = []
    if own is not None:
        found.append((f"session {session.name}", mine, own))
    if all_ is not None:
        found.append(("this home", rows, all_))
    return found


def _exceeded(session: SessionRow, whose: str, quota: int, missing: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"cannot snapshot session {session.name}: the snapshots of {whose} would take {missing} bytes more "
        f"than the {quota} they may",
        hint="`holdfast rmi` or `unpin` some (`holdfast snapshots` has their sizes), or raise the limit: "
        "`holdfast quota`, `holdfast policy S --quota`",
    )
