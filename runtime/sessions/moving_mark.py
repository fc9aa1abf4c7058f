"""The mark of a session that a move has suspended: it must not continue here as long as it may run elsewhere.

Knows nothing of how sessions are moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import OutcomeUnknown, SessionBusy

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


def suspend(context: Context, session: SessionRow, to: str) -> None:
    """Record that a session is suspended because it is being moved."""
    context.store.keep_details(session.id, moving={"to": to})


def may_run_there(context: Context, session: SessionRow, to: str, attempt: str) -> None:
    """Record that from here on the other machine may start it, in this attempt."""
    context.store.keep_details(session.id, moving={"to": to, "attempt": attempt})


def clear(context: Context, session: SessionRow) -> None:
    """Record that it runs on no other machine."""
    if session.details.moving is not None:
        context.store.keep_details(session.id, moving=None)


def refuse(session: SessionRow, verb: str) -> None:
    """Refuse to let a session continue here that may run elsewhere.

    Raises:
        SessionBusy: it is being moved.
        OutcomeUnknown: a move was cut short when the other machine may already have started it.
    """
    moving, name = session.details.moving, session.name
    if moving is None:
        return
    if moving.attempt is None:
        raise SessionBusy(f"cannot {verb} session {name}: it is being moved to {moving.to}")
    raise OutcomeUnknown(
        f"cannot {verb} session {name}: it may run at {moving.to}, where a move was cut short",
        hint=f"`holdfast move {name} {moving.to}` settles that; if it is certain that it does not run there, "
        f"`holdfast resume {name} --here`",
    )
