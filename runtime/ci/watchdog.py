"""Decides when to give up a command of a job, and why. Pure: observations and times come from the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from holdfast.runtime.ci.hang_detector import Counters, Standstill
from holdfast.runtime.guest.pulse.state import State

Given = Literal["timeout", "waiting", "standstill"]
"""The reason to give up a command: its time is over, it waits for input, it makes no progress."""
Due = Literal["timeout", "confirm", "look"]


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The time limits of a job, in seconds; None is unlimited.

    `standstill` is the time without any progress after which it hangs, 0 never; `answer` is how long it may
    wait for input that no one will give.
    """

    total: float | None = None
    standstill: float = 600.0
    answer: float = 2.0


class Vigil:
    """The next checks while a command runs."""

    def __init__(self, at: float, began: float, patience: TimeLimits) -> None:
        """Start to watch; `began` is when the time of the whole job began."""
        self._patience = patience
        self._ends = None if patience.total is None else began + patience.total
        self._still = Standstill(at, patience.standstill)
        self._look_at = at + self._still.every if patience.standstill > 0 else None
        self.asked: State | None = None
        """The wait that was last reported."""
        self._confirm_at: float | None = None

    def waits(self, state: State, at: float) -> None:
        """Note a report that it waits for input."""
        self.asked, self._confirm_at = state, at + self._patience.answer

    def continues(self) -> None:
        """Note that a check found it no longer waiting."""
        self._confirm_at = None

    def next(self) -> float | None:
        """Return when something is due; None if nothing ever is."""
        times = [time for time in (self._ends, self._look_at, self._confirm_at) if time is not None]
        return min(times, default=None)

    def due(self, at: float) -> Due | None:
        """Return what is due now."""
        if self._confirm_at is not None and at >= self._confirm_at:
            return "confirm"
        if self._ends is not None and at >= self._ends:
            return "timeout"
        return "look" if self._look_at is not None and at >= self._look_at else None

    def looked(self, look: Counters | None, at: float) -> bool:
        """Process a sample, or the lack of one at this time; return whether the job hangs."""
        self._look_at = at + self._still.every
        return look is not None and self._still.hangs(self._still.take(look))
