"""Takes turns, so that noise of the machine meets everyone alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

Contender = Callable[[], Iterable[float]]
Tell = Callable[[str], None]


def timed(do: Callable[[], object]) -> float:
    """Seconds one call takes."""
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def batch(count: int, do: Callable[[], object]) -> Contender:
    """A contender whose turn is `count` calls."""
    return lambda: [timed(do) for _ in range(count)]


def take_turns(rounds: int, contenders: Mapping[str, Contender], tell: Tell) -> dict[str, tuple[float, ...]]:
    """Let everyone measure once for warming up, then `rounds` times, beginning with another each time."""
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
