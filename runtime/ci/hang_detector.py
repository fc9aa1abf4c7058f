"""Tells from looks at a session whether anything is still done there. Pure: clocks and looks are others'.

A job that hangs uses no processor and moves no bytes. One that polls for something that never comes wakes up
now and then, which is little enough not to count. One that computes for ever is not told from one that works;
it is ended by the time limit.
"""

from __future__ import annotations

from dataclasses import dataclass

IDLE_CPU = 0.03
"""Of one processor: below it nothing is computed."""
IDLE_BYTES = 4096
"""Bytes of network a second below which nothing is moved."""
NOISE_CPU, NOISE_BYTES = 0.05, 16 << 10
"""Processors are accounted in ticks of 10 ms, of each process apart; a look goes over the network, too."""
LOOKS = 8
"""Looks within the time after which a standstill is a hang."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is counted at one moment, in seconds and bytes: all of it only grows."""

    at: float
    output: int
    cpu: float
    moved: int


class Standstill:
    """Remembers since when nothing is done."""

    def __init__(self, at: float, after: float) -> None:
        """`after` so many seconds a standstill is a hang; 0 is never."""
        self.after = after
        self._since = at
        self._base: Look | None = None

    @property
    def every(self) -> float:
        """Seconds between two looks."""
        return max(0.25, min(30.0, self.after / LOOKS))

    def take(self, look: Look) -> float:
        """Take a look; for how many seconds nothing was done by now."""
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
        """Whether that is long enough."""
        return self.after > 0 and stood >= self.after
