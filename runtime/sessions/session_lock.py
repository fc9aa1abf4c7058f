"""One thing at a time is done to a session as a whole: who comes second waits for the turn, not forever.

Knows nothing of what is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from holdfast.base import locks
from holdfast.errors import HoldfastError, SessionUnhealthy
from holdfast.runtime.sessions import health

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


def session_lock(context: Context, session_id: str, what: str) -> AbstractContextManager[None]:
    """Hold the exclusive lock of a session; waits up to `locks.PATIENCE` seconds for its holder.

    Raises:
        SessionBusy: it is still held; the message is "cannot <what>: …".
    """
    return locks.exclusive(context.home.locks, session_id, what, locks.PATIENCE)


@contextmanager
def turn(context: Context, session: SessionRow, verb: str, *, usable: bool = True) -> Iterator[SessionRow]:
    """Have a session for oneself; yields its row as it is when the turn has come.

    Others may have suspended or removed it meanwhile. With `usable` it must be one that runs.

    Raises:
        SessionBusy: somebody else had it for all of `locks.PATIENCE`; "cannot <verb> session …".
        SessionNotFound, SessionError, SessionDead: it is gone, or does not run (any more).
    """
    with session_lock(context, session.id, f"{verb} session {session.name}"):
        row = context.session_row(session.id)
        if usable:
            health.check_usable(context, row)
        try:
            yield row
        except HoldfastError as error:
            _check_after(context, session.id, error)
            raise


def _check_after(context: Context, session_id: str, error: HoldfastError) -> None:
    """If what failed left the session so that nobody can reach it, that is what matters."""
    row = context.store.find_session(session_id)
    if row is not None and row.details.marked_unhealthy and not isinstance(error, SessionUnhealthy):
        try:
            health.check_usable(context, row)
        except SessionUnhealthy as worse:
            raise worse from error
