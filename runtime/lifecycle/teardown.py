"""Removal of a session: everything but its row and its journal."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.base import ballast, locks
from holdfast.errors import StoreError
from holdfast.runtime.journal import host_events
from holdfast.runtime.journal.mirror import forget_oldest, mirror
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.sessions import shared_folder
from holdfast.runtime.sessions.session_lock import session_lock
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store.rows import OperationKind

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, OperationState, SessionRow


def remove(context: Context, ref: str) -> None:
    """End a session and remove it; its snapshots stay. State that was not captured is lost.

    Raises:
        SessionNotFound: the session does not exist (any more).
        SessionBusy: a snapshot of it is being taken.
    """
    row = context.session_row(ref)
    _ = context.engine  # start nothing that could not be completed
    with (
        ballast.given_up(context.home.root) as roomy,
        session_lock(context, row.id, f"remove session {row.name}"),
    ):
        if not roomy:  # then room is made first, although that cannot be recorded
            _free(context, row)
        with carry_out(context, OperationKind.REMOVE, session_id=row.id):
            context.doing(f"removing {row.name}")
            erase(context, row.id)
            locks.discard(context.home.locks, row.id)
    if row.parent_snapshot_id is not None:
        snapshot_storage.sweep_images(context)


def _free(context: Context, row: SessionRow) -> None:
    """Remove the container and the folder of a session, even if that cannot be recorded."""
    _end_container(context, row.id, row.container_id)
    with suppress(StoreError):
        mirror(context.store, context.home, row.id)
    shared_folder.remove(context.engine, context.home, row.id)
    close_gateway(context, row.id)


def erase(context: Context, session_id: str) -> None:
    """Remove the container and the folder of a session, if they exist, and record that in its row.

    The caller holds the session's lock, or undoes an operation.
    """
    store, home = context.store, context.home
    row = store.find_session(session_id)
    _end_container(context, session_id, row.container_id if row is not None else None)
    mirror(store, home, session_id)
    shared_folder.remove(context.engine, home, session_id)
    close_gateway(context, session_id)
    if row is not None:
        host_events.note(context, session_id, "removed")
        forget_oldest(store)
        store.update_session(session_id, state="removed", container_id=None)
        if row.options.get("secrets"):
            from holdfast.runtime.egress import vault

            vault.forget_values(context, row.options)


def _end_container(context: Context, session_id: str, container_id: str | None) -> None:
    """Remove the container of a session; if it is unknown, the container with its name.

    That can be the session itself: it keeps its id when it moves to another home of the same engine.
    """
    if container_id is None:
        found = context.engine.inspect(provision.container_name(session_id))
        if found is None or found.labels.get("holdfast.home") != context.home.digest:
            return
        container_id = found.id
    context.engine.kill_remove(container_id)


def close_gateway(context: Context, session_id: str) -> None:
    """Remove the session's rules from the gateway; most homes have none."""
    if context.home.has_gateway:
        from holdfast.runtime.egress import session_policy

        session_policy.end(context.engine, context.home, session_id)


@undoes(OperationKind.REMOVE)
def finish_removal(context: Context, operation: OperationRow) -> OperationState:
    """Remove the sessions of an operation; a job's session without its controller counts as removed."""
    sessions = context.store.sessions()
    ended = {operation.session_id, *operation.details.session_ids}
    ended |= {row.id for row in sessions if row.name == operation.details.session}
    of, names = operation.details.copies
    if of is not None:
        ended |= {row.id for row in sessions if row.name in names and row.parent_snapshot_id == of}
    for session_id in filter(None, ended):
        erase(context, session_id)
    return "done"
