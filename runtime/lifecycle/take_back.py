"""Undoing of operations: removes the containers, images, folders, sessions and snapshots they made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base import polling
from holdfast.errors import SessionNotFound
from holdfast.runtime.lifecycle import orphan_containers, teardown
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.operation import is_orphan
from holdfast.runtime.sessions import after_capture, shared_folder
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store.rows import OperationRow, SessionRow
from holdfast.snapshots.raw_cache import IMAGES

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import OperationState

_WRITTEN_SECONDS = 5.0


def take_back_containers(
    context: Context, operation: OperationRow, *, cut: bool = False
) -> OperationState | None:
    """Undo an operation that makes containers; wait for one that the engine is still creating."""
    if is_orphan(operation) and not _is_made(context, operation):
        return None
    return take_back(context, operation, cut=cut)


def take_back(context: Context, operation: OperationRow, *, cut: bool = False) -> OperationState:
    """Remove everything that carries the operation's id.

    Args:
        context: the context of the call.
        operation: the operation to undo.
        cut: True if it captured a session whose processes the checkpointer can still hold.
    """
    engine = context.engine
    for container_id in engine.containers(holdfast_operation=operation.id):
        engine.kill_remove(container_id)
    for image in engine.images.listed(holdfast_operation=operation.id):
        engine.images.remove(image.id)
    staging = context.home.staging / operation.id
    cut = cut or (staging / IMAGES).exists()
    _remove(staging)
    _take_back_sessions(context, operation, cut)
    _take_back_snapshots(context, operation)
    return "failed"


def take_back_capture(context: Context, operation: OperationRow) -> OperationState:
    """Undo a capture; its session continues."""
    take_back(context, operation, cut=True)
    return _tidied(context)


def take_back_import(context: Context, operation: OperationRow) -> OperationState:
    """Undo the import of a snapshot."""
    take_back(context, operation)
    return _tidied(context)


def _tidied(context: Context) -> OperationState:
    snapshot_storage.tidy(context)
    snapshot_storage.sweep_images(context)
    return "failed"


def _remove(folder: Path) -> None:
    """Remove a folder in which a checkpointer can still write until it notices that its caller has ended."""

    def gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    polling.until(gone, _WRITTEN_SECONDS, 0.001)


def _is_made(context: Context, operation: OperationRow) -> bool:
    """Check that the engine has stopped creating containers for an operation whose process is dead."""
    known = {row.id for row in context.store.sessions()}
    made = {operation.session_id, *operation.details.session_ids} & known
    return all(orphan_containers.clear(context, operation, session_id) for session_id in made if session_id)


def _take_back_sessions(context: Context, operation: OperationRow, cut: bool) -> None:
    """Remove the sessions that were being made; let the captured one continue."""
    made = {operation.session_id, *operation.details.session_ids}
    for row in context.store.sessions():
        if row.id not in made:
            continue
        if row.state == "creating":
            # What was taken from the pool has the label of the operation that made it.
            for container_id in context.engine.containers(
                holdfast_session=row.id, holdfast_home=context.home.digest
            ):
                context.engine.kill_remove(container_id)
            _remove_shared(context, row.id)
            try:
                context.store.update_session(row.id, state="removed", container_id=None)
            except SessionNotFound:
                continue
        elif row.state == "suspended":
            _remove_shared(context, row.id)
        elif row.container_id is not None:
            _let_run(context, row, row.container_id, cut)


def _let_run(context: Context, row: SessionRow, container_id: str, cut: bool) -> None:
    state = context.engine.inspect(container_id)
    if state is not None and state.paused:
        context.engine.unpause(container_id)
    if state is not None and state.running:
        after_capture.look(context, row, cut=cut)


def _take_back_snapshots(context: Context, operation: OperationRow) -> None:
    made = {operation.snapshot_id, *operation.details.snapshot_ids}
    for row in context.store.snapshots(pending=True):
        if row.id in made and row.state == "pending":
            shutil.rmtree(context.home.snapshots / row.id, ignore_errors=True)
            context.engine.images.remove(snapshot_storage.image_ref(row.id))
            context.store.forget_snapshot(row.id)


def _remove_shared(context: Context, session_id: str) -> None:
    shared_folder.remove(context.engine, context.home, session_id)
    teardown.close_gateway(context, session_id)
