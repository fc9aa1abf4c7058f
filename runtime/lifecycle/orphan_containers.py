"""Containers without a session, and containers that the engine is still creating for a dead process.

The engine completes a request whose client has died. It lists a container shortly before it exists, and until
then reports that there is none to remove; believing that would leave the container behind for ever. Even
before a container is listed its name is reserved, so that another request for the name reveals it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.base import locks, polling
from holdfast.errors import ImageError, SessionBusy, SessionNotFound
from holdfast.runtime.lifecycle import provision

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, SessionRow

CLEAR_SECONDS = 20.0
"""How long a busy engine takes to create a container, at most."""
_POLL_SECONDS = 0.02


def unowned(context: Context) -> list[str]:
    """Return the containers of this home's sessions and builds that belong to no session and no open
    operation."""
    found: dict[str, dict[str, str]] = {}
    for role in ("session", "build"):
        found |= context.engine.containers(holdfast_home=context.home.digest, holdfast_role=role)
    # In this order, so that operations that start after the first listing are left alone.
    busy = {row.id for row in context.store.operations.open()}
    known: set[str | None] = {row.container_id for row in context.store.waiting.all()}
    known |= {row.container_id for row in context.store.sessions()}  # later: some of the former are these now
    return [
        container
        for container, labels in found.items()
        if container not in known and labels.get("holdfast.operation") not in busy
    ]


def clear(context: Context, operation: OperationRow, session_id: str) -> bool:
    """Remove the containers that an operation of a dead process made for a session, or is still making.

    Returns False if that cannot be decided yet: the engine is not done, or the session is in use.

    Raises:
        EngineError: the engine does not answer.
    """
    with suppress(SessionBusy, SessionNotFound), locks.exclusive(context.home.locks, session_id, "clear"):
        row = context.store.session(session_id)
        if row.state in ("creating", "suspended") or operation.details.aside:
            return _cleared(context, operation, row)
        return True
    return False


def clear_unrecorded(context: Context, operation: OperationRow, row: SessionRow) -> bool:
    """Do the same for a session that was to wait in the pool and is not recorded in the store.

    Raises:
        EngineError: the engine does not answer.
    """
    return _cleared(context, operation, row)


def _cleared(context: Context, operation: OperationRow, row: SessionRow) -> bool:
    engine = context.engine
    name = provision.container_name(row.id) + operation.details.aside
    labels = provision.labels(context.home, row, operation.id)
    asked = {"holdfast_session": row.id, "holdfast_operation": operation.id}
    if row.state == "creating":  # all there is of it, also what another operation had made for the pool
        asked = {"holdfast_session": row.id, "holdfast_home": context.home.digest}

    def cleared() -> bool:
        made = list(engine.containers(**asked))
        if not made:
            try:
                placeholder = engine.reserve(name, row.image, labels)
            except ImageError:  # an image that is gone gets no containers
                return True
            made = [] if placeholder is None else [placeholder]
        removed = [engine.kill_remove(container_id) for container_id in made]
        return bool(made) and all(removed)

    return polling.until(cleared, CLEAR_SECONDS, _POLL_SECONDS)
