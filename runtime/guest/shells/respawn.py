"""When the next shell is started after one that ended.  Pure: times are given, in seconds of one clock."""

from __future__ import annotations

HASTY = 1.0
"""A shell that ends sooner after its start ended as it was started."""
MAX_DELAY = 5.0


class Respawn:
    """Delays starts while shells end as fast as they are started."""

    def __init__(self) -> None:
        self._started = 0.0
        self._hasty_ends = 0
        self._why = ""

    def starts(self, now: float) -> None:
        """Note that a shell is started."""
        self._started = now

    def failed(self, why: str) -> None:
        """Note that it could not be started."""
        self._hasty_ends += 1
        self._why = f"it cannot be started: {why}"

    def ended(self, now: float, how: str) -> None:
        """Note that it has ended."""
        self._hasty_ends = self._hasty_ends + 1 if now - self._started < HASTY else 0
        self._why = how

    def works(self) -> None:
        """Note that it shows a prompt."""
        self._hasty_ends = 0

    @property
    def trouble(self) -> str:
        """Why one is not started at once, and how often that was so; empty if it is."""
        return f"{self._why}, {self._hasty_ends} times" if self.delay else ""

    @property
    def delay(self) -> float:
        """Seconds until the next start; 0 is at once."""
        return 0.0 if self._hasty_ends <= 2 else min(0.1 * 2**self._hasty_ends, MAX_DELAY)
