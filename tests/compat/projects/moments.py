"""The times of snapshots: drawn at random over the time a run takes. Pure.

The same seed, project and number give the same shares of the run; the state at them depends on the machine.
"""

from __future__ import annotations

import random

# A capture that begins at the very end of a run finds it ended.
FIRST, LAST = 0.02, 0.93


def draw(seed: int, project: str, count: int) -> list[float]:
    """Return shares of a run, in order: one at random from each of `count` parts of equal length."""
    source = random.Random(f"{seed} {project} {count}")
    width = (LAST - FIRST) / max(count, 1)
    return [FIRST + width * (number + source.random()) for number in range(count)]
