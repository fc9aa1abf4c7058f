"""The capture or suspension of a session as one operation.

Everything it makes carries the operation's id, so that `recovery` can undo it; the steps are in `capture`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.base.interrupts import held
from holdfast.errors import (
    InvalidArgument,
    SnapshotDamaged,
    SnapshotNewer,
)
from holdfast.runtime.capture import reuse_check, snapshot_reuse
from holdfast.runtime.capture.capture import Taking
from holdfast.runtime.capture.snapshot_rows import new_row
from holdfast.runtime.journal import host_events
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.retention import prune
from holdfast.runtime.sessions import health
from holdfast.runtime.sessions.session_lock import check_runs, turn
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store.lifetime import DETAIL, change
from holdfast.runtime.store.row_details import OperationDetails
from holdfast.runtime.store.rows import OperationKind, SnapshotRow
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import (
        OperationRow,
        OperationState,
        SessionRow,
        SnapshotKind,
    )
    from holdfast.snapshots.failure import Failure


def take(
    context: Context,
    session: SessionRow,
    label: str | None,
    kind: SnapshotKind,
    reason: str | None = None,
    force_drop: Sequence[str] = (),
    failure: Failure | None = None,
    *,
    settle: bool = True,
) -> SnapshotRow:
    """Capture a running session, which continues; of a dead one, its files if its container is still there.

    Without `settle` its memory is not packed soon: it is about to be sent, and then removed.

    Raises:
        LiveUnsupported: a live snapshot is not possible; the message says why.
        CaptureFailed, StoreError, SessionBusy, SessionDead: nothing was captured.
    """
    if force_drop and kind != "live":
        raise InvalidArgument("cannot drop anything: nothing blocks a snapshot of files")
    with turn(context, session, "snapshot", usable=False) as session:
        if kind == "live" or health.ended(context, session) is None:
            check_runs(context, session)
        return capture(
            context, session, label, kind, reason, force_drop=force_drop, failure=failure, settle=settle
        )


def capture(
    context: Context,
    session: SessionRow,
    label: str | None,
    kind: SnapshotKind,
    reason: str | None = None,
    auto: Mapping[str, Any] | None = None,
    thawed: Callable[[], None] = lambda: None,
    force_drop: Sequence[str] = (),
    failure: Failure | None = None,
    *,
    settle: bool = True,
) -> SnapshotRow:
    """Like `take`, but the caller holds the lock. `auto` names the trigger of an automatic snapshot.

    An automatic snapshot can be the last one again, if nothing has happened since.
    """
    found = reuse_check.since(context, session) if auto is not None and kind == "live" else None
    same_task = found is not None and found[0].details.task == session.details.task
    if found is not None and same_task and _same_options(context, found[0], session):
        thawed()
        return found[0]
    prune.check_room(context, session)
    snapshot_id, rows = ids.new_id(), list[SnapshotRow]()

    def plan() -> None:
        rows.append(new_row(context, session, snapshot_id, label, kind, reason, auto, failure))

    with carry_out(
        context, OperationKind.SNAPSHOT, session_id=session.id, snapshot_id=snapshot_id, plan=plan
    ) as operation:
        row = rows[0]
        shares = kind == "live" and not force_drop
        snapshot = snapshot_reuse.share(context, session, operation, row) if shares else None
        if snapshot is None:
            taking = Taking(context, session, operation, row, thawed, force_drop)
            snapshot = taking.live() if kind == "live" else taking.filesystem()
        else:
            thawed()
    if settle and (snapshot_storage.unpacked(snapshot) or kind == "filesystem"):
        snapshot_storage.leave_to_worker(context)
    prune.make_room(context, session, snapshot)
    return snapshot


def suspend(
    context: Context,
    session: SessionRow,
    *,
    kind: SnapshotKind = "live",
    settle: bool = True,
    asleep: str = "",
    still: Callable[[], None] = lambda: None,
) -> SessionRow:
    """Capture a session and end its processes at the same instant; nothing of its container remains.

    Of the kind `filesystem` its memory is lost: it begins with new processes when it is resumed. If its files
    cannot be stored it is dead then, and can be started again in its container.

    Without `settle` its memory is not packed soon: it is about to be moved, and then removed.

    `asleep`: why its lifetime has it sleep, if that is the reason; the snapshot is automatic then. `still` is
    called under the session's lock, and raises if the session is not to be suspended after all.
    """
    from holdfast.runtime.egress import attempt_log  # a snapshot needs none of it

    snapshot_id, rows = ids.new_id(), list[SnapshotRow]()
    auto = {"trigger": "sleep", "what": asleep} if asleep else None
    details = OperationDetails.of(asleep=asleep) if asleep else None
    with turn(context, session, "suspend") as running:
        still()

        def plan() -> None:
            rows.append(new_row(context, running, snapshot_id, None, kind, auto=auto))

        with carry_out(
            context,
            OperationKind.SUSPEND,
            session_id=running.id,
            snapshot_id=snapshot_id,
            details=details,
            plan=plan,
        ) as operation:
            prune.check_room(context, running)
            attempt_log.glance(context, running)
            taking = Taking(context, running, operation, rows[0])
            taken = taking.suspend() if kind == "live" else taking.suspend_files()
            with held():
                suspended = _put_away(context, running, taken, operation)
    if settle:
        snapshot_storage.leave_to_worker(context)
    prune.make_room(context, running, taken, must=True)
    return suspended


@undoes(OperationKind.SUSPEND)
def undo_suspension(context: Context, operation: OperationRow) -> OperationState | None:
    """Finish a suspension whose processes have ended: the session now consists of its snapshot."""
    if _finished(context, operation):
        return "done"
    return undo_capture(context, operation)


@undoes(OperationKind.SNAPSHOT)
def undo_capture(context: Context, operation: OperationRow) -> OperationState:
    """Undo a capture; its session continues."""
    from holdfast.runtime.lifecycle import take_back  # loads all that makes containers

    return take_back.take_back_capture(context, operation)


def _finished(context: Context, operation: OperationRow) -> bool:
    taken = context.store.find_snapshot(operation.snapshot_id)
    session = context.store.find_session(operation.session_id)
    if taken is None or session is None:
        return False
    state = context.engine.inspect(session.container_id or "")
    if state is not None and state.running:
        snapshot_storage.remove_snapshot(context, taken)
        return False
    _put_away(context, session, taken, operation)
    return True


def _put_away(
    context: Context, session: SessionRow, taken: SnapshotRow, operation: OperationRow
) -> SessionRow:
    from holdfast.runtime.sessions import shared_folder

    if session.container_id is not None:
        context.engine.kill_remove(session.container_id)
    host_events.taken(context, session, taken, "suspended", why=operation.details.asleep or None)
    shared_folder.remove(context.engine, context.home, session.id)
    if context.home.has_gateway:
        from holdfast.runtime.egress import session_policy

        session_policy.leave(context.home, session.id)
    suspended = {"state": "suspended", "container_id": None, "parent_snapshot_id": taken.id}
    why, memory = operation.details.asleep, taken.kind == "live"
    with context.store.together():
        # First: the quota of the home does not give an end to what does not run.
        context.store.operations.complete(operation.id, sessions={session.id: suspended})
        if DETAIL in session.details or "sandbox" in session.details:
            change(context.store, session.id, lambda kept: kept.suspended(why, memory=memory))
    return context.store.session(session.id)


def _same_options(context: Context, snapshot: SnapshotRow, session: SessionRow) -> bool:
    """Check that a snapshot has this session's options: the network's can be changed from outside."""
    with contextlib.suppress(SnapshotDamaged, SnapshotNewer):
        return manifest.read(context.home.snapshots / snapshot.id).options == session.options
    return False
