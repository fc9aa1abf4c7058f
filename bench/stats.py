"""Statistics of many measurements.  Pure: numbers in, numbers and verdicts out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "bytes", "count"]
Verdict = Literal["pass", "miss", "-"]


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the samples lie, interpolated between neighbors.

    Raises:
        ValueError: there are no samples, or the share is not a share.
    """
    if not samples or not 0 <= share <= 1:
        raise ValueError("a percentile needs samples, and a share from 0 to 1")
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = math.ceil(place)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(samples: Sequence[float]) -> float:
    """Return the middle of the samples.

    Raises:
        ValueError: there are no samples.
    """
    return percentile(samples, 0.5)


@dataclass(frozen=True, slots=True)
class Series:
    """Measurements of one thing: the contender, and the result of each turn."""

    who: str
    unit: Unit
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the samples."""
        return median(self.samples)

    def at(self, share: float) -> float:
        """Return a percentile of the samples."""
        return percentile(self.samples, share)


@dataclass(frozen=True, slots=True)
class Target:
    """The limit of a row: a number, or a multiple of its baseline. `why` says where it comes from."""

    limit: float
    kind: Literal["ratio", "value"]
    why: str


def judge(value: float, baseline: float | None, target: Target | None) -> Verdict:
    """Return the verdict on a row and its target; `-` without a target or a baseline."""
    if target is None or (target.kind == "ratio" and not baseline):
        return "-"
    measured = value if target.kind == "value" else value / (baseline or 1.0)
    return "pass" if measured <= target.limit else "miss"


def freeze_limit(memcpy_seconds: float) -> float:
    """Return the seconds for which a capture may freeze a session: 100 ms and six copies of its heap in
    memory.
    """
    return 0.1 + 6 * memcpy_seconds
