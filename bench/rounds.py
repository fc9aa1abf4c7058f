"""Takes turns, so that noise of the machine affects all contenders alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

Contender = Callable[[], Iterable[float]]
Tell = Callable[[str], None]


def timed(do: Callable[[], object]) -> float:
    """Return the seconds one call takes."""
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def batch(count: int, do: Callable[[], object]) -> Contender:
    """Return a contender whose turn is `count` calls."""
    return lambda: [timed(do) for _ in range(count)]


def take_turns(rounds: int, contenders: Mapping[str, Contender], tell: Tell) -> dict[str, tuple[float, ...]]:
    """Let each contender measure once to warm up, then `rounds` times, with a different first one
    each time.
    """
    names = list(contenders)
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        tell(f"round {turn} of {rounds}" if turn else "warming up")
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            samples = list(contenders[name]())
            if turn:
                found[name] += samples
    return {name: tuple(samples) for name, samples in found.items()}
