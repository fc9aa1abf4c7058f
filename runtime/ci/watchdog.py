"""When a command of a job is given up, and why. Pure: what is seen and when is the caller's to tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from holdfast.runtime.ci.hang_detector import Look, Standstill
from holdfast.runtime.guest.pulse.state import State

Given = Literal["timeout", "waiting", "standstill"]
"""Why a command is not waited for any longer: its time is over, it waits for input, nothing is done."""
Due = Literal["timeout", "confirm", "look"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a job may take, in seconds; None is for ever.

    `standstill` is the time without any progress after which it hangs, 0 never; `answer` is for how long it
    may wait for input that nobody will give.
    """

    total: float | None = None
    standstill: float = 600.0
    answer: float = 2.0


class Vigil:
    """What is to be looked at next while a command runs."""

    def __init__(self, at: float, began: float, patience: Patience) -> None:
        """`began` is when the time of the whole job began."""
        self._patience = patience
        self._ends = None if patience.total is None else began + patience.total
        self._still = Standstill(at, patience.standstill)
        self._look_at = at + self._still.every if patience.standstill > 0 else None
        self.asked: State | None = None
        """What it waited for when it was last heard of."""
        self._confirm_at: float | None = None

    def waits(self, state: State, at: float) -> None:
        """It says that it waits for somebody."""
        self.asked, self._confirm_at = state, at + self._patience.answer

    def goes_on(self) -> None:
        """It was looked at, and does not wait any longer."""
        self._confirm_at = None

    def next(self) -> float | None:
        """When something is due; None if nothing ever is."""
        times = [time for time in (self._ends, self._look_at, self._confirm_at) if time is not None]
        return min(times, default=None)

    def due(self, at: float) -> Due | None:
        """What is due now."""
        if self._confirm_at is not None and at >= self._confirm_at:
            return "confirm"
        if self._ends is not None and at >= self._ends:
            return "timeout"
        return "look" if self._look_at is not None and at >= self._look_at else None

    def looked(self, look: Look | None, at: float) -> bool:
        """Take a look, or that there could be none at this time; whether it hangs."""
        self._look_at = at + self._still.every
        return look is not None and self._still.hangs(self._still.take(look))
