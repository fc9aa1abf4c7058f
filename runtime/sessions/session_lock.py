"""The lock of a session: operations on the whole session take turns, and wait for a limited time.

Knows nothing of the operations.
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
    """Hold the exclusive lock of a session; wait up to `locks.LOCK_SECONDS` seconds for its holder.

    Raises:
        SessionBusy: it is still held; the message is "cannot <what>: …".
    """
    return locks.exclusive(context.home.locks, session_id, what, locks.LOCK_SECONDS)


@contextmanager
def turn(context: Context, session: SessionRow, verb: str, *, usable: bool = True) -> Iterator[SessionRow]:
    """Acquire the session's lock and yield its current row.

    A different caller can have suspended or removed the session in the meantime. With `usable` it must run,
    and must not be paused by another program.

    Raises:
        SessionBusy: the lock was held for all of `locks.LOCK_SECONDS`; "cannot <verb> session …".
        SessionNotFound, SessionError, SessionDead: the session was removed, or does not run (any more).
    """
    with session_lock(context, session.id, f"{verb} session {session.name}"):
        row = context.session_row(session.id)
        if usable:
            check_runs(context, row)
        try:
            yield row
        except HoldfastError as error:
            _check_after(context, session.id, error)
            raise


def check_runs(context: Context, row: SessionRow) -> None:
    """Check, before an operation is recorded, that a session is in use and that no other program paused it.

    Undoing an operation lets a paused session run.

    Raises:
        SessionError, SessionDead: it does not run, or was paused.
    """
    health.check_usable(context, row)
    if (state := context.engine.inspect(row.container_id or "")) is not None:
        health.check_awake(context, row, state)


def _check_after(context: Context, session_id: str, error: HoldfastError) -> None:
    """Raise SessionError instead if the failed operation left the session unreachable."""
    row = context.store.find_session(session_id)
    if row is not None and row.details.marked_unhealthy and not isinstance(error, SessionUnhealthy):
        try:
            health.check_usable(context, row)
        except SessionUnhealthy as worse:
            raise worse from error
