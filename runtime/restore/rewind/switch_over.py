"""The switch from a session's old container to the one restored from a snapshot, and its undoing.

Every step may be repeated, even by another process: the operation's details say what to do.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.engine import networks
from holdfast.errors import EngineError, SnapshotDamaged, SnapshotNewer
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.journal.mirror import mirror
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.lifecycle.take_back import take_back_containers
from holdfast.runtime.operations.operation import undoes
from holdfast.runtime.sessions import shared_folder
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.lives import Lives
from holdfast.runtime.store.rows import OperationKind
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, OperationState, SessionRow


def finish(context: Context, operation_id: str) -> bool:
    """Let the new container take the old one's place if it is known to answer; else return False.

    The folder comes first and the row with it, so that clients that lose the old connection find the new
    one; then the old container ends.
    """
    operation = next((row for row in context.store.operations.open() if row.id == operation_id), None)
    session = None if operation is None else context.store.find_session(operation.session_id)
    if operation is None or session is None or not _may_finish(context, operation, session):
        return False
    store, engine, details = context.store, context.engine, operation.details
    run, aside, left = _folders(context, operation)
    if session.container_id != details.proven:
        snapshot = store.snapshot(details.snapshot)
        mirror(store, context.home, session.id)
        if aside.exists():
            if run.exists():
                run.rename(left)
            aside.rename(run)
        if snapshot.details.task is not None:
            # What was recorded later is in the snapshot of the present, and in the journal.
            store.keep_details(session.id, task=snapshot.details.task)
        Lives(store.database).begin(session, snapshot, details.columns)
    if details.old:
        engine.kill_remove(details.old)
    shared_folder.remove(engine, context.home, left.name)
    with suppress(EngineError):  # its name only serves people
        engine.rename(details.proven or "", provision.container_name(session.id))
    store.operations.complete(operation.id)
    return True


@undoes(OperationKind.REWIND)
def undo(context: Context, operation: OperationRow) -> OperationState | None:
    """Finish a rewind whose new container is known to answer; undo any other."""
    if finish(context, operation.id):
        return "done"
    _take_back(context, operation)
    return take_back_containers(context, operation, cut=True)


def _take_back(context: Context, operation: OperationRow) -> None:
    """Give the old container its name, folder and addresses back; the caller removes the new one."""
    session, engine = context.store.find_session(operation.session_id), context.engine
    if session is None or not operation.details.aside:
        return
    for container in engine.containers(holdfast_operation=operation.id):
        engine.kill_remove(container)
    run, aside, left = _folders(context, operation)
    if left.exists():
        shared_folder.remove(engine, context.home, run.name)
        left.rename(run)
    shared_folder.remove(engine, context.home, aside.name)
    state = engine.inspect(operation.details.old) if operation.details.old else None
    if state is not None and state.running and operation.details.addresses:
        networks.join(engine, state.id, operation.details.addresses)
        options = SessionOptions.parse(**session.options)
        network = Closing(engine, context.home, context.progress)
        network.renew(options, state.id)
        network.say_addresses(state.id, but=operation.details.addresses)


def last_addresses(context: Context, session: SessionRow) -> tuple[str, ...]:
    """Return the addresses a session had when it was last captured; none if that is not known."""
    for snapshot in reversed(context.store.snapshots(session.id)):
        with suppress(SnapshotDamaged, SnapshotNewer):
            kept = manifest.read(context.home.snapshots / snapshot.id)
            if kept.processes is not None:
                return tuple(kept.processes.addresses)
    return ()


def _may_finish(context: Context, operation: OperationRow, session: SessionRow) -> bool:
    proven = operation.details.proven
    if proven is None:
        return False
    if session.container_id == proven:
        return True
    state = context.engine.inspect(proven)
    return state is not None and state.running


def _folders(context: Context, operation: OperationRow) -> tuple[Path, Path, Path]:
    """Return the folders of the session as clients find it, of the new one, and of the old one put aside."""
    run = context.home.run / (operation.session_id or "")
    aside = run.with_name(run.name + operation.details.aside)
    return run, aside, aside.with_name(aside.name + ".old")
