"""One look at all sessions: captures those that were idle for as long as their policy says, and tidies up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.keeping import activity, automatic, tidying
from holdfast.runtime.keeping.policy import Policy
from holdfast.runtime.line import Line

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.store.rows import SessionRow


def look(controller: Holdfast) -> list[str]:
    """Capture what is due, and let go of what is overdue. Returns names of the sessions that were captured.

    What fails for one session is told once, and does not stop the others.
    """
    captured: list[str] = []
    for session in controller.sessions():
        policy = Policy.of(session.row.details)
        try:
            if session.state == "running" and policy.idle and _due(controller, session.row, policy.idle):
                automatic.take(controller, session.id, policy, "idle", "nothing was done for long")
                captured.append(session.name)
            tidying.expire(controller, session.row)
        except HoldfastError as error:
            automatic.told(controller, session.id, error)
    return captured


def _due(controller: Holdfast, row: SessionRow, seconds: float) -> bool:
    return activity.idle(Line(controller, lambda: row), seconds)
