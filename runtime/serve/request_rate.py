"""How many requests are answered in a time: a bucket that refills.  Pure but for its clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class RequestRate:
    """At most `rate` requests a second in the long run, and `burst` at once; 0 is any number."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    def refused(self) -> float | None:
        """Count a request; return None if it may be answered, or the seconds until one may."""
        if self._rate <= 0:
            return None
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return None
        return (1 - self._left) / self._rate
