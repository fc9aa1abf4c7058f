"""Deadlines of calls with a time limit, by which the session must have ended them; then the caller stops
waiting.

It knows neither commands nor cells, nor how they are waited for.
"""

from __future__ import annotations

import time

from holdfast.errors import GuestError

OVERDUE = 120.0
"""Seconds after the time limit by which the session must have ended a call, captures included."""


def after(limit: float) -> float:
    """Return when a call that starts now is overdue, by the monotonic clock; `limit` in seconds."""
    return time.monotonic() + limit + OVERDUE


def check(moment: float | None, what: str) -> None:
    """Raise GuestError if `what` should have ended by now; with None nothing is overdue."""
    if moment is not None and time.monotonic() >= moment:
        raise GuestError(
            f"cannot wait any longer: the session did not end the {what} at its time limit",
            hint="it is damaged or hostile; go back to a snapshot of it, or remove it",
        )
