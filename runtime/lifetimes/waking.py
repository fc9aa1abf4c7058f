"""Wakes sessions that their lifetime has put to sleep, when they are used."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.journal import host_events
from holdfast.runtime.restore import resume_session
from holdfast.runtime.store import lifetime

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


def wake(context: Context, session_id: str) -> SessionRow:
    """Resume a session that sleeps, and return its row; one that does not sleep is returned as it is.

    Several callers wake it once: the session's lock lets the others wait.

    Raises:
        HoldfastError: it still sleeps; why is in its journal as well.
    """
    row = context.session_row(session_id)
    if not lifetime.asleep(row):
        return row
    context.progress(f"session {row.name} sleeps, and is woken")
    try:
        return resume_once(context, row)
    except HoldfastError as error:
        with suppress(HoldfastError):
            host_events.note(context, session_id, "wake_failed", why=str(error), code=error.code)
        error.hint = f"{error.hint}; it still sleeps, and the next use tries again".removeprefix("; ")
        raise


def resume_once(context: Context, row: SessionRow) -> SessionRow:
    """Resume a suspended session, unless another caller has just done so.

    Raises:
        RestoreFailed, SessionBusy, SessionError: it stays suspended.
    """
    try:
        return resume_session.resume(context, row)
    except HoldfastError:
        now = context.store.session(row.id)
        if now.state != "running":
            raise
        return now
