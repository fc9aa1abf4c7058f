"""When a job is interrupted, and how: drawn from a seed.  Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

KINDS = ("controller", "container", "conversation")
"""What is killed: the worker with its command line; the container and then these; the worker alone, whose
command line continues without it."""
Call = tuple[str, str]
"""What the worker is about to do, and with which step."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """Kill this kind of process this many seconds after the worker has begun a call for the first time."""

    kind: str
    at: Call
    after: float


def drawn(seed: int, count: int, calls: Sequence[Call], took: Mapping[Call, float]) -> list[Interruption]:
    """Return interruptions in the order of the calls, of each kind equally often.

    Args:
        seed: of the dice.
        count: how many; at most as many as there are calls.
        calls: those that change something, in the order in which an uninterrupted worker makes them.
        took: seconds of each of them.
    """
    dice = random.Random(seed)
    kinds = list(islice(cycle(KINDS), count))
    dice.shuffle(kinds)
    places = sorted(dice.sample(range(len(calls)), count))
    return [
        Interruption(kind, calls[place], dice.random() * took.get(calls[place], 0.5))
        for kind, place in zip(kinds, places, strict=True)
    ]


class Schedule:
    """Which interruption is due, as the calls of workers come."""

    def __init__(self, order: Sequence[Call], interruptions: Sequence[Interruption]) -> None:
        self._place = {call: place for place, call in enumerate(order)}
        self._furthest = -1
        self.left = list(interruptions)
        """Those that are still to come."""

    def due(self, call: Call) -> Interruption | None:
        """Return the interruption that belongs to a call, or to one that was passed; each comes once."""
        place = self._place.get(call, -1)
        self._furthest = max(self._furthest, place)
        if not self.left:
            return None
        wanted = self._place[self.left[0].at]
        return self.left.pop(0) if place >= wanted or self._furthest > wanted else None
