"""What can be done with snapshots, each all or nothing.

What is made on the way carries the operation's id, so that `recovery` can take it back; how a capture and
a restore go is in `taking` and `restoring`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    EngineError,
    InvalidArgument,
    RestoreFailed,
    SessionError,
    SnapshotDamaged,
    SnapshotInUse,
)
from holdfast.runtime import ballast, ids, naming, shared_folder, sharing, storing, unchanged
from holdfast.runtime.egress import attempt_log
from holdfast.runtime.interrupts import held
from holdfast.runtime.journal import happenings
from holdfast.runtime.keeping import holding, tidying
from holdfast.runtime.restoring import Restoring
from holdfast.runtime.taking import Taking, image_ref, new_row
from holdfast.runtime.turns import turn
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.lineage.rewinding import Outcome, Wish
    from holdfast.runtime.store.rows import OperationRow, SessionRow, SnapshotKind, SnapshotRow
    from holdfast.snapshots.failure import Failure
    from holdfast.snapshots.fitness import Name


def take(
    controller: Holdfast,
    session: SessionRow,
    label: str | None,
    kind: SnapshotKind,
    reason: str | None = None,
    force_drop: Sequence[str] = (),
    failure: Failure | None = None,
) -> SnapshotRow:
    """Capture a running session; it runs on.

    Raises:
        LiveUnsupported: a live snapshot is not possible; the reason is in the message.
        CaptureFailed, StoreError, SessionBusy, SessionDead: nothing was taken.
    """
    if force_drop and kind != "live":
        raise InvalidArgument("cannot drop anything: nothing blocks a snapshot of files")
    with turn(controller, session, "snapshot") as session:
        return capture(controller, session, label, kind, reason, force_drop=force_drop, failure=failure)


def capture(
    controller: Holdfast,
    session: SessionRow,
    label: str | None,
    kind: SnapshotKind,
    reason: str | None = None,
    auto: Mapping[str, Any] | None = None,
    thawed: Callable[[], None] = lambda: None,
    force_drop: Sequence[str] = (),
    failure: Failure | None = None,
) -> SnapshotRow:
    """As `take`, for who holds the session's lock; `auto` says what it is taken for if nobody asked.

    Then it is the last one, if nothing has happened since.
    """
    found = unchanged.since(controller, session) if auto is not None and kind == "live" else None
    if found is not None and _same_options(controller, found[0], session):
        thawed()
        return found[0]
    tidying.check_room(controller, session)
    snapshot_id = ids.new_id()
    with controller.operation("snapshot", session_id=session.id, snapshot_id=snapshot_id) as operation:
        row = new_row(controller, session, operation, label, kind, reason, auto, failure)
        shares = kind == "live" and not force_drop
        snapshot = sharing.share(controller, session, operation, row) if shares else None
        if snapshot is None:
            taking = Taking(controller, session, operation, row, thawed, force_drop)
            snapshot = taking.live() if kind == "live" else taking.filesystem()
            snapshot = storing.settle(controller, snapshot)
        else:
            thawed()
    happenings.taken(controller, session, snapshot)
    tidying.make_room(controller, session, snapshot)
    return snapshot


def suspend(controller: Holdfast, session: SessionRow) -> SessionRow:
    """Capture a session and end its processes in the same moment; nothing of its container remains."""
    with (
        turn(controller, session, "suspend") as session,
        controller.operation("suspend", session_id=session.id, snapshot_id=ids.new_id()) as operation,
    ):
        tidying.check_room(controller, session)
        attempt_log.glance(controller, session)
        row = new_row(controller, session, operation, None, "live")
        taken = Taking(controller, session, operation, row).suspend()
        with held():
            suspended = _put_away(controller, session, taken, operation.id)
    tidying.make_room(controller, session, storing.settle(controller, taken), must=True)
    return suspended


def resume(controller: Holdfast, session: SessionRow) -> SessionRow:
    """Let a suspended session go on under its name and id."""
    with turn(controller, session, "resume", usable=False) as session:
        if session.state != "suspended" or session.parent_snapshot_id is None:
            raise SessionError(f"cannot resume session {session.name}: it is not suspended")
        snapshot = controller.store.snapshot(session.parent_snapshot_id)
        with (
            holding.used(controller, snapshot),
            controller.operation("resume", session_id=session.id) as operation,
        ):
            restoring = Restoring(controller, snapshot, operation)
            try:
                resumed = restoring.bring_up([_next_generation(session, restoring)])[0]
            except RestoreFailed as error:
                error.hint = (
                    f"{error.hint}; the session stays suspended; "
                    f"`holdfast restore {snapshot.name} --as files` makes one of its files"
                ).removeprefix("; ")
                raise
    happenings.note(controller, session.id, "resumed")
    return resumed


def rewind(controller: Holdfast, session: SessionRow, snapshot: SnapshotRow, wish: Wish) -> Outcome:
    """Take a session back to a snapshot in place. Raises as `rewinding.rewind` does."""
    from holdfast.runtime.lineage import rewinding

    return rewinding.rewind(controller, session, snapshot, wish)


def restore(
    controller: Holdfast,
    snapshot: SnapshotRow,
    name: str | None,
    count: int,
    rung: Name | None = None,
    network: str | None = None,
    allow: Sequence[str] = (),
) -> list[SessionRow]:
    """Make `count` sessions that go on from a snapshot: called name, or name-1, name-2, …

    They reach what the snapshot says, or `network`, and `allow` as well.

    Raises:
        InvalidArgument: the network cannot be like that.
        LiveUnsupported: that, or the rung that was asked for, is not possible on this machine.
        SessionExists, SnapshotDamaged, RestoreFailed: nothing is left of any of them.
    """
    if snapshot.state == "pending":
        raise SnapshotDamaged(f"cannot restore {snapshot.name}: it is not complete")
    if name is not None:
        ids.check_name(name if count == 1 else f"{name}-{count}")
    with holding.used(controller, snapshot), controller.operation("restore") as operation:
        restoring = Restoring(controller, snapshot, operation, rung=rung)
        options = restoring.options(network, allow)
        session_ids = [ids.new_id() for _ in range(count)]
        controller.store.operations.update(operation.id, details={"session_ids": session_ids})
        rows = [
            _add(controller, restoring, options, session_id, _name(name, number, count))
            for number, session_id in enumerate(session_ids, start=1)
        ]
        happenings.branched(controller, rows, snapshot)
        made = restoring.bring_up(rows)
    happenings.restored(controller, made, snapshot, restoring.rung)
    return made


def remove_snapshot(controller: Holdfast, snapshot: SnapshotRow) -> None:
    """Delete a snapshot: image, files, row, in this order, so that a removal cut short can be repeated.

    Raises:
        SnapshotInUse: a suspended session needs it, or it is being restored.
    """
    for session in controller.store.sessions():
        if session.state == "suspended" and session.parent_snapshot_id == snapshot.id:
            raise SnapshotInUse(
                f"cannot remove snapshot {snapshot.name}: session {session.name} is suspended in it",
                hint=f"`holdfast resume {session.name}` or `holdfast rm {session.name}` first",
            )
    with ballast.given_up(controller.home), held(), holding.removing(controller, snapshot):
        controller.engine.images.remove(image_ref(snapshot.id))
        sweep_images(controller)
        shutil.rmtree(controller.home.snapshots / snapshot.id, ignore_errors=True)
        controller.store.forget_snapshot(snapshot.id)
        storing.tidy(controller)


def sweep_images(controller: Holdfast) -> None:
    """Remove images of snapshots that are gone and that no container needs any more.

    A session restored from a snapshot keeps the image alive without a name when the snapshot is removed. One
    with a name but no snapshot was asked for by a process that died before the engine had made it.
    """
    engine, store = controller.engine, controller.store
    found = engine.images.having(holdfast_home=controller.home.digest, holdfast_role="snapshot")
    # In this order: what is begun after the first look is no business of this one.
    known = {image_ref(row.id) for row in store.snapshots(pending=True)}
    needed = {row.image_id for row in store.snapshots()} | {row.image for row in store.sessions()}
    for image_id, tags in found.items():
        if image_id not in needed and not known.intersection(tags):
            with contextlib.suppress(EngineError):  # a container still runs on it
                engine.images.remove(image_id)


def finish_suspension(controller: Holdfast, operation: OperationRow) -> bool:
    """Finish a suspension whose processes are gone already: then the snapshot is all there is of the session.

    Returns False if they still run: then it is to be undone.
    """
    taken = next((s for s in controller.store.snapshots() if s.id == operation.snapshot_id), None)
    session = next((s for s in controller.store.sessions() if s.id == operation.session_id), None)
    if taken is None or session is None:
        return False
    state = controller.engine.inspect(session.container_id or "")
    if state is not None and state.running:
        remove_snapshot(controller, taken)
        return False
    _put_away(controller, session, taken, operation.id)
    return True


def _put_away(controller: Holdfast, session: SessionRow, taken: SnapshotRow, operation_id: str) -> SessionRow:
    if session.container_id is not None:
        controller.engine.kill_remove(session.container_id)
    happenings.taken(controller, session, taken, "suspended")
    shared_folder.remove(controller.engine, controller.home, session.id)
    if controller.home.has_gateway:
        from holdfast.runtime.egress import session_policy

        session_policy.leave(controller.home, session.id)
    suspended = {"state": "suspended", "container_id": None, "parent_snapshot_id": taken.id}
    controller.store.operations.complete(operation_id, sessions={session.id: suspended})
    return controller.store.session(session.id)


def _next_generation(session: SessionRow, restoring: Restoring) -> SessionRow:
    from dataclasses import replace

    return replace(session, generation=max(session.generation, restoring.kept.generation) + 1)


def _same_options(controller: Holdfast, snapshot: SnapshotRow, session: SessionRow) -> bool:
    """Whether a snapshot would make the session that this one is: its network can be changed from outside."""
    with contextlib.suppress(SnapshotDamaged):
        return manifest.read(controller.home.snapshots / snapshot.id).options == session.options
    return False


def _name(chosen: str | None, number: int, count: int) -> str | None:
    if chosen is None or count == 1:
        return chosen
    return f"{chosen}-{number}"


def _add(
    controller: Holdfast, restoring: Restoring, options: dict[str, Any], session_id: str, name: str | None
) -> SessionRow:
    return naming.add(
        controller.store,
        name,
        restoring.kept.image,
        options,
        session_id=session_id,
        parent_snapshot_id=restoring.snapshot.id,
        generation=restoring.kept.generation + 1,
    )
