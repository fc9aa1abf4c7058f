"""What the packer costs: processor time of its process, and the time until a first snapshot is packed."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from bench.disk_floor import seconds_to_write
from bench.families.storage import CHANGES
from bench.plan import Plan, heap_name
from bench.row import Row
from bench.stats import Series, Target
from bench.world import PACKER_SECONDS, World
from holdfast import Session
from holdfast.base import locks
from holdfast.runtime.storage import packing_request

FAMILY = "packing"
CONTENTS = {
    "random bytes": "import os, random; heap = bytearray(os.urandom({heap}))",
    "objects": "import random; heap = [[number, str(number), {{}}] for number in range({heap} // 250)]",
}
"""Cells that fill about `heap` bytes of memory."""
SPEED = 1e9
"""Bytes a second."""
_COMPRESSIBLE = Target(1.0, "ratio", "a gigabyte of what compresses in each second")
_DISK = Target(1.5, "ratio", "no slower than the disk")


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds, seconds of processor time, and bytes: of the images, and written."""

    seconds: float
    processor: float
    raw: int
    own: int


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure first snapshots, and second ones of which a hundredth has changed, of the largest heap."""
    heap = plan.stored[-1]
    group = heap_name(heap)
    first: defaultdict[str, list[_Cost]] = defaultdict(list)
    second: list[_Cost] = []
    written: list[float] = []
    for turn in range(plan.storage):
        for name, cell in CONTENTS.items():
            world.tell(f"{group} of {name}: {turn + 1} of {plan.storage}")
            session = world.session("packed")
            session.cell(cell.format(heap=heap), timeout=300)
            first[name].append(_pack(world, session))
            if name == "random bytes":
                session.cell(CHANGES["scattered"], timeout=300)
                second.append(_pack(world, session))
                written.append(seconds_to_write(world.home / "written", first[name][-1].own))
            world.forget()
    random, objects = (first[name] for name in CONTENTS)
    at_speed = Series("at 1 GB/s", "s", tuple(cost.raw / SPEED for cost in objects))
    for name, costs, baseline, target in (
        ("random bytes", random, Series("writing as much", "s", tuple(written)), _DISK),
        ("objects", objects, at_speed, _COMPRESSIBLE),
    ):
        taken = Series("Holdfast", "s", tuple(cost.seconds for cost in costs))
        yield Row(FAMILY, f"first snapshot of {name}", taken, group, baseline=baseline, target=target)
    yield Row(
        FAMILY,
        "second snapshot, 1 % changed, processor time",
        Series("Holdfast", "s", tuple(cost.processor for cost in second)),
        group,
        target=Target(
            0.3 * heap / (1 << 30), "value", "what has not changed is found at the speed of memory"
        ),
    )


def _pack(world: World, session: Session) -> _Cost:
    """Take a snapshot, and return what its packer takes, which runs alone."""
    home = world.holdfast.home
    world.await_packer()
    with locks.whole_file(packing_request.lock_of(home), PACKER_SECONDS):
        snapshot = session.snapshot()
    world.await_packer()
    command = [sys.executable, "-m", "holdfast.runtime.storage.background_packer", str(home.root)]
    begun = time.perf_counter()
    _, status, used = os.wait4(os.posix_spawn(sys.executable, command, os.environ), 0)
    seconds = time.perf_counter() - begun
    if status:
        raise RuntimeError("the packer failed")
    stored = snapshot.pack().row.details["storage"]
    return _Cost(seconds, used.ru_utime + used.ru_stime, int(stored["raw"]), int(stored["own"]))
