"""Memory the supervisor takes in a session, beyond the shell and the kernel that would be there anyway."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench.plan import MIB, Plan
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Session

FAMILY = "supervisor"
BUDGET = 60 * MIB
_OUTPUT = "head -c 50000000 /dev/urandom | base64"


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure a session that has just begun, and one that has worked."""
    session = world.session("supervisor")
    world.tell("fresh")
    session.cell("1+1")
    fresh = _memory(session)
    world.tell("after work")
    for _ in range(20 * plan.execute):
        session.exec("true")
    session.exec(_OUTPUT)
    session.cell("for i in range(20000): print(i)")
    worked = _memory(session)
    session.remove()
    target = Target(BUDGET, "value", "budget: 60 MiB above the bare kernel and shell")
    for name, (pss, rss) in (("fresh", fresh), ("after 67 MB of output", worked)):
        pss_found, rss_found = (Series("Holdfast", "bytes", (float(size),)) for size in (pss, rss))
        yield Row(FAMILY, "supervisor and init, PSS", pss_found, group=name, target=target)
        yield Row(FAMILY, "supervisor and init, RSS", rss_found, group=name)


def _memory(session: Session) -> tuple[int, int]:
    """Return PSS and RSS in bytes of the supervisor and the container's first process."""
    answer = session.exec("cat /proc/1/smaps_rollup /proc/$PPID/smaps_rollup").text
    found = {
        key: sum(map(int, re.findall(rf"^{key}:\s+(\d+) kB", answer, re.M))) * 1024 for key in ("Pss", "Rss")
    }
    if len(re.findall(r"^Pss:", answer, re.M)) != 2:
        raise RuntimeError(f"cannot read the memory of the supervisor: {answer[:200]}")
    return found["Pss"], found["Rss"]
