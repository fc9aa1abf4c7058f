"""Removes all there is of one session but its row and its journal. Whoever asks holds its lock, or undoes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.runtime import provision, shared_folder
from holdfast.runtime.journal import happenings
from holdfast.runtime.journal.mirror import forget_oldest, mirror

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.store.rows import SessionRow


def free(controller: Holdfast, row: SessionRow) -> None:
    """Remove the container and the folder of a session, whether or not that can be recorded."""
    controller.engine.kill_remove(row.container_id or provision.container_name(row.id))
    with suppress(StoreError):
        mirror(controller.store, controller.home, row.id)
    shared_folder.remove(controller.engine, controller.home, row.id)
    _close_gateway(controller, row.id)


def erase(controller: Holdfast, session_id: str) -> None:
    """Remove the container and the folder of a session, as far as they are there; its row says so."""
    store, home = controller.store, controller.home
    row = next((row for row in store.sessions() if row.id == session_id), None)
    controller.engine.kill_remove((row and row.container_id) or provision.container_name(session_id))
    mirror(store, home, session_id)
    shared_folder.remove(controller.engine, home, session_id)
    _close_gateway(controller, session_id)
    if row is not None:
        happenings.note(controller, session_id, "removed")
        forget_oldest(store)
        store.update_session(session_id, state="removed", container_id=None)
        if row.options.get("secrets"):
            from holdfast.runtime.keeping import secret_values

            secret_values.forget(controller, row.options)


def _close_gateway(controller: Holdfast, session_id: str) -> None:
    """Nothing of a session is left at the gateway; most homes have none."""
    if controller.home.has_gateway:
        from holdfast.runtime.egress import session_policy

        session_policy.end(controller.engine, controller.home, session_id)
