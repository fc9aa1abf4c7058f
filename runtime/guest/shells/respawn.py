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

    def starts(self, now: float) -> None:
        """Note that a shell is started."""
        self._started = now

    def failed(self) -> None:
        """Note that it could not be started."""
        self._hasty_ends += 1

    def ended(self, now: float) -> None:
        """Note that it has ended."""
        self._hasty_ends = self._hasty_ends + 1 if now - self._started < HASTY else 0

    def works(self) -> None:
        """Note that it shows a prompt."""
        self._hasty_ends = 0

    @property
    def delay(self) -> float:
        """Seconds until the next start; 0 is at once."""
        return 0.0 if self._hasty_ends <= 2 else min(0.1 * 2**self._hasty_ends, MAX_DELAY)
