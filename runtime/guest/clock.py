"""An event loop whose clock stops while the process is frozen or moved to another machine.

The monotonic clock jumps when a process is captured and restored: forward by the pause, or backward where
the machine booted later. Timers (a command's timeout) must not notice. The driver says when to expect a
jump.
"""

from __future__ import annotations

import asyncio
import time

MAX_STEP = 1.0
"""Seconds the clock may advance between two readings while jumps are expected."""


class SteadyLoop(asyncio.SelectorEventLoop):
    """A selector loop whose `time` hides jumps while `watchful` is set; it must then be read often."""

    def __init__(self) -> None:
        self._skew = 0.0
        self._last = time.monotonic()
        self.watchful = False
        super().__init__()

    def time(self) -> float:
        """Return seconds for which this process could run."""
        now = time.monotonic()
        if self.watchful and not 0.0 <= now - self._last <= MAX_STEP:
            self._skew -= now - self._last
        self._last = now
        return now + self._skew

    def look(self) -> None:
        """Read the clock, so that later jumps are measured from now."""
        self._last = time.monotonic()
