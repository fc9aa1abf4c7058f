"""Until when a session must have ended what was given a time limit; whoever waits is then let go.

It knows neither commands nor cells, nor how they are waited for.
"""

from __future__ import annotations

import time

from holdfast.errors import GuestError

OVERDUE = 120.0
"""Seconds after the time limit in which the session must have ended it, captures included."""


def after(limit: float) -> float:
    """Return when something that begins now is overdue, by the monotonic clock; `limit` in seconds."""
    return time.monotonic() + limit + OVERDUE


def check(moment: float | None, what: str) -> None:
    """Raise GuestError if `what` should have ended by now; nothing is overdue at None."""
    if moment is not None and time.monotonic() >= moment:
        raise GuestError(
            f"cannot wait any longer: the session has not ended the {what} at its time limit",
            hint="it is damaged or hostile; go back to a snapshot of it, or remove it",
        )
