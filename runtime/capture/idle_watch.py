"""One pass over all sessions: captures those that were idle for as long as their policy says, and prunes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.capture import activity, autosnapshot
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.retention import prune
from holdfast.runtime.sessions import health
from holdfast.runtime.store.policy import Policy

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


def look(context: Context) -> list[str]:
    """Capture the sessions that are due, and remove overdue snapshots. Returns the names of the captured
    sessions.

    A failure in one session is reported once and does not stop the others.
    """
    captured: list[str] = []
    for session in health.observe_all(context):
        policy = Policy.of(session.details)
        try:
            if session.state == "running" and policy.idle and _due(context, session, policy.idle):
                autosnapshot.take(context, session.id, policy, "idle", "idle for long")
                captured.append(session.name)
            prune.expire(context, session)
        except HoldfastError as error:
            autosnapshot.report_failure(context, session.id, error)
    return captured


def _due(context: Context, row: SessionRow, seconds: float) -> bool:
    return activity.idle(SessionChannel(context, lambda: row), seconds)
