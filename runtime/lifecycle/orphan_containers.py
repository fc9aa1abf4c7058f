"""Containers that the engine still makes for a process that is gone.

The engine goes on with a request whose client has died. It lists a container a little before it is made, and
says until then that there is none to remove: who believes that leaves it there for ever. And what is not even
listed yet has taken its name already, so that somebody else who asks for the name learns of it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.base import locks
from holdfast.errors import ImageError, SessionBusy, SessionNotFound
from holdfast.runtime.lifecycle import provision

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, SessionRow

PATIENCE = 20.0
"""Seconds in which even a busy engine makes a container."""
_POLL_SECONDS = 0.02


def clear(context: Context, operation: OperationRow, session_id: str) -> bool:
    """Remove what an operation of a dead process made of a session, and what comes of it within a while.

    Returns False if it cannot be told yet: the engine is not done with it, or somebody uses the session.

    Raises:
        EngineError: the engine cannot be asked.
    """
    with suppress(SessionBusy, SessionNotFound), locks.exclusive(context.home.locks, session_id, "clear"):
        row = context.store.session(session_id)
        if row.state in ("creating", "suspended") or operation.details.aside:
            return _cleared(context, operation, row)
        return True
    return False


def _cleared(context: Context, operation: OperationRow, row: SessionRow) -> bool:
    engine = context.engine
    name = provision.container_name(row.id) + operation.details.aside
    labels = provision.labels(context.home, row, operation.id)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        made = list(engine.containers(holdfast_session=row.id, holdfast_operation=operation.id))
        if not made:
            try:
                placeholder = engine.reserve(name, row.image, labels)
            except ImageError:  # of what is not there, nobody makes a container
                return True
            made = [] if placeholder is None else [placeholder]
        removed = [engine.kill_remove(container_id) for container_id in made]
        if made and all(removed):
            return True
        time.sleep(_POLL_SECONDS)
    return False
