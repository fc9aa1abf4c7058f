"""Undoing what an operation had begun when it failed, was interrupted, or lost its process.

There is one way to undo, used in all three cases.  It needs only the operation's row: whatever an operation
makes carries its id as a label or in its name, and rows it made are in a state of their own.  Every step may
be repeated, so undoing may itself be cut short.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import EngineUnavailable, HoldfastError, SessionBusy, SessionNotFound, StoreError
from holdfast.runtime import ballast
from holdfast.runtime.interrupts import held
from holdfast.runtime.locks import exclusive
from holdfast.runtime.store import owner, peek
from holdfast.runtime.store.rows import OperationRow, SessionRow

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast

_WRITTEN_SECONDS = 5.0
_CAPTURE = ("snapshot", "suspend", "rewind")
_MAKE_CONTAINERS = ("new", "restore", "resume", "rewind")


def recover(controller: Holdfast) -> None:
    """Undo what processes that are gone had begun. Cheap when there is nothing to do.

    Without an engine, or room on the disk, nothing can be undone: that waits for the next time.
    """
    if peek.abandoned(controller.home.database) is False:
        return
    orphans = [operation for operation in controller.store.operations.open() if _orphaned(operation)]
    if not orphans:
        return
    with ballast.given_up(controller.home) as roomy:
        try:
            with exclusive(controller.home.locks, "recovery", "recover"):
                # The latest first: one may have been begun within another.
                for operation in reversed(orphans):
                    undo(controller, operation.id)
        except (SessionBusy, EngineUnavailable):
            return
        except StoreError:
            if roomy:
                raise


@contextmanager
def carried_out(controller: Holdfast, begin: Callable[[], OperationRow]) -> Iterator[OperationRow]:
    """Begin an operation, and close its row when the block ends; if it fails, undo what it had begun.

    Whenever an interrupt comes, either nothing has begun or it is undone here.
    """
    begun: OperationRow | None = None
    try:
        with held():
            begun = begin()
        yield begun
    except BaseException as error:
        if begun is not None:
            with held():
                try:
                    undo(controller, begun.id)
                except HoldfastError as second:
                    error.add_note(f"what was begun could not be undone yet: {second}")
        raise
    with held():
        controller.store.operations.end(begun.id, "done")


def undo(controller: Holdfast, operation_id: str) -> None:
    """Take back everything the operation made, or finish it if it was a removal, and close its row."""
    operation = next((row for row in controller.store.operations.open() if row.id == operation_id), None)
    if operation is None:
        return
    if operation.kind in ("remove", "ci", "retry"):  # a job without its controller is as good as removed
        ended = {operation.session_id, *_listed(operation, "session_ids")}
        ended |= {
            row.id for row in controller.store.sessions() if row.name == operation.details.get("session")
        }
        ended |= _copies(controller, operation)
        for session_id in filter(None, ended):
            from holdfast.runtime.erasing import erase

            erase(controller, session_id)
        controller.store.operations.end(operation.id, "done")
        return
    if _settled(controller, operation):
        return
    from holdfast.snapshots.raw import IMAGES

    engine, store = controller.engine, controller.store
    if _orphaned(operation) and not _is_made(controller, operation):
        return  # the next one looks again
    for container_id in engine.containers(holdfast_operation=operation.id):
        engine.kill_remove(container_id)
    for image_id in engine.images.having(holdfast_operation=operation.id):
        engine.images.remove(image_id)
    staging = controller.home.staging / operation.id
    cut = (staging / IMAGES).exists() or operation.kind in _CAPTURE
    _remove(staging)
    _undo_sessions(controller, operation, cut)
    _undo_snapshots(controller, operation)
    store.operations.end(operation.id, "failed")


def _remove(folder: Path) -> None:
    """Remove a folder in which a checkpointer may still write, until it hears that nobody wants that."""
    deadline = time.monotonic() + _WRITTEN_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.001)


def _orphaned(operation: OperationRow) -> bool:
    return not owner.alive(operation.owner_pid, operation.owner_start)


def _is_made(controller: Holdfast, operation: OperationRow) -> bool:
    """Whether the engine makes no more containers for it: whoever asked for them is dead, not the engine."""
    if operation.kind not in _MAKE_CONTAINERS:
        return True
    from holdfast.runtime import in_flight

    known = {row.id for row in controller.store.sessions()}
    made = {operation.session_id, *_listed(operation, "session_ids")} & known
    return all(in_flight.clear(controller, operation, session_id) for session_id in made if session_id)


def _copies(controller: Holdfast, operation: OperationRow) -> set[str]:
    """Sessions of the names that copies of one snapshot were to have, if they are copies of it."""
    names, of = set(_listed(operation, "names")), operation.details.get("of")
    if not names or of is None:
        return set()
    rows = controller.store.sessions()
    return {row.id for row in rows if row.name in names and row.parent_snapshot_id == of}


def _undo_sessions(controller: Holdfast, operation: OperationRow, cut: bool) -> None:
    """Remove the sessions that were being made; let the one that was being captured run on."""
    made = {operation.session_id, *_listed(operation, "session_ids")}
    for row in controller.store.sessions():
        if row.id not in made:
            continue
        if row.state == "creating":
            _remove_shared(controller, row.id)
            try:
                controller.store.update_session(row.id, state="removed", container_id=None)
            except SessionNotFound:
                continue
        elif row.state == "suspended":
            _remove_shared(controller, row.id)
        elif row.container_id is not None:
            state = controller.engine.inspect(row.container_id)
            if state is not None and state.paused:
                controller.engine.unpause(row.container_id)
            if state is not None and state.running:
                _look_after(controller, row, cut)


def _undo_snapshots(controller: Holdfast, operation: OperationRow) -> None:
    made = {operation.snapshot_id, *_listed(operation, "snapshot_ids")}
    for row in controller.store.snapshots(pending=True):
        if row.id in made and row.state == "pending":
            shutil.rmtree(controller.home.snapshots / row.id, ignore_errors=True)
            controller.engine.images.remove(f"holdfast/snapshot:{row.id}")
            controller.store.forget_snapshot(row.id)
    if operation.kind in ("snapshot", "suspend", "import"):
        from holdfast.runtime import snapshotting, storing

        storing.tidy(controller)
        snapshotting.sweep_images(controller)


def _remove_shared(controller: Holdfast, session_id: str) -> None:
    # Imported late: a command that has nothing to undo does without it.
    from holdfast.runtime import shared_folder

    shared_folder.remove(controller.engine, controller.home, session_id)
    if controller.home.has_gateway:
        from holdfast.runtime.egress import session_policy

        session_policy.end(controller.engine, controller.home, session_id)


def _look_after(controller: Holdfast, row: SessionRow, cut: bool) -> None:
    # Imported late: a command that has nothing to undo does without it.
    from holdfast.runtime import aftermath

    aftermath.look(controller, row, cut=cut)


def _settled(controller: Holdfast, operation: OperationRow) -> bool:
    """Whether nothing is left to be undone in the general way."""
    match operation.kind:
        case "suspend":
            return _finished(controller, operation)
        case "rewind":
            return _rewound(controller, operation)
        case "network":
            if _reclosed(controller, operation):
                controller.store.operations.end(operation.id, "failed")
            return True  # or the next one tries again
    return False


def _finished(controller: Holdfast, operation: OperationRow) -> bool:
    # Imported late: a command that has nothing to undo does without it.
    from holdfast.runtime import snapshotting

    return snapshotting.finish_suspension(controller, operation)


def _rewound(controller: Holdfast, operation: OperationRow) -> bool:
    """Whether the session has gone back; if not, its old container has again what it had."""
    from holdfast.runtime.lineage import switching

    if switching.finish(controller, operation.id):
        return True
    switching.take_back(controller, operation)
    return False


def _reclosed(controller: Holdfast, operation: OperationRow) -> bool:
    """Whether the rules of the session's network are those of its options again."""
    from holdfast.runtime.egress import changing

    return changing.take_back(controller, operation, orphaned=_orphaned(operation))


def _listed(operation: OperationRow, key: str) -> list[str]:
    found = operation.details.get(key)
    return [str(item) for item in found] if isinstance(found, list) else []
