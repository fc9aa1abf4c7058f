"""The memory that forks of a large session hold as long as they do not touch its data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.plan import MIB, Plan, heap_name
from bench.rounds import timed
from bench.row import Row, skipped
from bench.stats import Series, Target
from bench.usage import held
from bench.world import World
from holdfast import Session, Snapshot

FAMILY = "forks"
FORKS = 10
HEAP = 1024 * MIB
_MOST = Target(1.5 * HEAP, "value", "ten forks that do nothing hold little more than one session")
_HOLDS, _STARTS = (
    f"memory of {FORKS} forks that touch nothing",
    f"{FORKS} forks, until all have run a command",
)


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Fork a session with a large heap ten times."""
    group = heap_name(HEAP)
    session = world.session("large")
    session.cell(f"import os; heap = bytearray(os.urandom({HEAP}))", timeout=300)
    snapshot = session.snapshot("large")
    try:
        alone = held([session])
    except PermissionError:
        yield skipped(
            FAMILY, _HOLDS, "Holdfast", "only root may measure the memory of others", "bytes", group
        )
        return
    memory, seconds = [], []
    for turn in range(plan.storage):
        world.tell(f"{FORKS} forks: {turn + 1} of {plan.storage}")
        forks: list[Session] = []
        seconds.append(timed(partial(_begin, snapshot, forks)))
        memory.append(float(held(forks)))
        for fork in forks:
            fork.remove()
    world.forget()
    one = Series("one session", "bytes", (float(alone),))
    yield Row(FAMILY, _HOLDS, Series("Holdfast", "bytes", tuple(memory)), group, baseline=one, target=_MOST)
    yield Row(FAMILY, _STARTS, Series("Holdfast", "s", tuple(seconds)), group)


def _begin(snapshot: Snapshot, forks: list[Session]) -> None:
    forks += snapshot.fork(FORKS)
    for fork in forks:
        fork.exec("true")
