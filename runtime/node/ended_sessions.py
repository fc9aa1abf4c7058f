"""How often sessions whose containers end can return from their copies.  Pure.

A container ends with its engine, by the kernel for want of memory, or by a command of the administrator; the
cluster then starts the session again from its copy. One whose container ends again soon after each return
stays dead, as on a single machine: whatever ends it is in the copy.
"""

from __future__ import annotations

MOST_RETURNS = 3
WITHIN_SECONDS = 900.0


class EndedSessions:
    """The recent returns of each session. Times are seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        self._returns: dict[str, list[float]] = {}

    def can_return(self, session: str, now: float) -> bool:
        """Return whether a session whose container has ended is to return once more, and count that."""
        recent = [at for at in self._returns.get(session, ()) if now - at < WITHIN_SECONDS]
        can = len(recent) < MOST_RETURNS
        self._returns[session] = [*recent, now] if can else recent
        return can

    def keep(self, sessions: set[str]) -> None:
        """Forget all other sessions."""
        self._returns = {key: times for key, times in self._returns.items() if key in sessions}
