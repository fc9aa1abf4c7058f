"""Rows on whether the files and the memory of a snapshot are of one instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.capturers.capturer import Capturer, Unavailable, is_torn
from bench.capturers.ours import Ours
from bench.plan import Plan
from bench.row import Row, skipped
from bench.stats import Series, Target
from bench.world import World

FAMILY = "one instant"
NAME = "snapshots whose files and memory differ"


def rows(world: World, plan: Plan, peers: Sequence[Capturer]) -> Iterator[Row]:
    """Capture and restore a counter again and again; yield a row for each tool."""
    for each in (Ours(world), *peers):
        torn: list[float] = []
        try:
            each.begin(0)
            for turn in range(plan.instant):
                world.tell(f"{each.name}: {turn + 1} of {plan.instant}")
                torn.append(float(is_torn(each)))
        except Unavailable as error:
            yield skipped(FAMILY, NAME, each.name, str(error), unit="count")
            continue
        finally:
            each.end()
        target = Target(0, "value", "one freeze over memory and files") if each.name == Ours.name else None
        yield Row(FAMILY, NAME, Series(each.name, "count", tuple(torn)), statistic="sum", target=target)
