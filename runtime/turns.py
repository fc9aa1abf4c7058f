"""One thing at a time is done to a session as a whole: who comes second waits for the turn, not forever.

Knows nothing of what is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, SessionUnhealthy
from holdfast.runtime import health

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.store.rows import SessionRow


@contextmanager
def turn(
    controller: Holdfast, session: SessionRow, verb: str, *, usable: bool = True
) -> Iterator[SessionRow]:
    """Have a session for oneself; yields its row as it is when the turn has come.

    Others may have suspended or removed it meanwhile. With `usable` it must be one that runs.

    Raises:
        SessionBusy: somebody else had it for all of `locks.PATIENCE`; "cannot <verb> session …".
        SessionNotFound, SessionError, SessionDead: it is gone, or does not run (any more).
    """
    with controller.lock(session.id, f"{verb} session {session.name}"):
        row = controller.session_row(session.id)
        if usable:
            health.check_usable(controller, row)
        try:
            yield row
        except HoldfastError as error:
            _check_after(controller, session.id, error)
            raise


def _check_after(controller: Holdfast, session_id: str, error: HoldfastError) -> None:
    """If what failed left the session so that nobody can reach it, that is what matters."""
    rows = [row for row in controller.store.sessions() if row.id == session_id]
    if rows and "unhealthy" in rows[0].details and not isinstance(error, SessionUnhealthy):
        try:
            health.check_usable(controller, rows[0])
        except SessionUnhealthy as worse:
            raise worse from error
