"""The pulse of a session with 50 processes, next to `ps aux` in the same container."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench.plan import Plan
from bench.rounds import batch, take_turns
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Session

FAMILY = "pulse"
PROCESSES = 50
BATCH = 10
BUDGET = 0.020
_PS = """
import json, subprocess, time
def measured(count):
    found = []
    for _ in range(count):
        began = time.perf_counter()
        subprocess.run(["ps", "aux"], stdout=subprocess.DEVNULL, check=True)
        found.append(time.perf_counter() - began)
    return found
"""


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure the gathering in the session, and the whole call."""
    session = world.session("pulse")
    session.cell(_PS)
    session.exec(f"for i in $(seq {PROCESSES}); do sleep 100000 & done")
    surplus = len(session.pulse(parts=["processes"]).processes) - PROCESSES
    session.exec(f"kill $(jobs -p | head -n {surplus}); wait -n")
    found = take_turns(
        plan.execute,
        {
            "gathering": lambda: [session.pulse().took for _ in range(BATCH)],
            "call": batch(BATCH, session.pulse),
            "ps aux": lambda: _ps(session),
        },
        world.tell,
    )
    session.remove()
    target = Target(BUDGET, "value", "a look must cost nobody anything; budget: 20 ms for 50 processes")
    group = f"{PROCESSES} processes"
    ours = Series("Holdfast", "s", found["gathering"])
    yield Row(FAMILY, "gathering in the session", ours, group=group, target=target)
    yield Row(
        FAMILY,
        "gathering in the session",
        ours,
        group=group,
        baseline=Series("ps aux", "s", found["ps aux"]),
        note="ps tells of processes only",
    )
    whole = Series("Holdfast", "s", found["call"])
    yield Row(FAMILY, "session.pulse(), everything", whole, group=group)


def _ps(session: Session) -> list[float]:
    samples: list[float] = json.loads(session.cell(f"print(json.dumps(measured({BATCH})))").stdout)
    return samples
