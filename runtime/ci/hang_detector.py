"""Detects from samples of a session whether it still makes progress. Pure: clocks and samples are the
caller's.

A job that hangs uses no CPU and moves no bytes. One that polls for something that never comes wakes up now
and then, which is little enough not to count. One that computes forever cannot be told apart from one that
works; it is ended by the time limit.
"""

from __future__ import annotations

from dataclasses import dataclass

IDLE_CPU = 0.03
"""Of one processor: below this share nothing is computed."""
IDLE_BYTES = 4096
"""Bytes of network per second below which nothing is moved."""
NOISE_CPU, NOISE_BYTES = 0.05, 16 << 10
"""CPU time is counted in ticks of 10 ms, per process; a sample itself uses the network as well."""
LOOKS = 8
"""Samples within the time after which a standstill is a hang."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters at one time, in seconds and bytes; all of them only grow."""

    at: float
    output: int
    cpu: float
    moved: int


class Standstill:
    """The time since when there has been no progress."""

    def __init__(self, at: float, after: float) -> None:
        """Start at a time; after `after` seconds a standstill is a hang, 0 never."""
        self.after = after
        self._since = at
        self._base: Counters | None = None

    @property
    def every(self) -> float:
        """Seconds between two samples."""
        return max(0.25, min(30.0, self.after / LOOKS))

    def take(self, look: Counters) -> float:
        """Process a sample; return for how many seconds there has been no progress."""
        base = self._base
        spent = look.at - self._since
        if base is None:
            self._base = look
        elif (
            look.output != base.output
            or look.cpu - base.cpu > NOISE_CPU + IDLE_CPU * spent
            or look.moved - base.moved > NOISE_BYTES + IDLE_BYTES * spent
        ):
            self._base, self._since = look, look.at
        return look.at - self._since

    def hangs(self, stood: float) -> bool:
        """Return whether that is long enough for a hang."""
        return self.after > 0 and stood >= self.after
