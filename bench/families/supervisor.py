"""Memory the supervisor takes in a session, beyond the shell and the kernel that would be there anyway."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench import usage
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
    """Return PSS and RSS in bytes of the supervisor and the container's first process (proc_pid_smaps(5)).

    They are read from this side: in the session, no process may examine these two.

    Raises:
        PermissionError: this process may not either; it must be root.
    """
    supervisor = session.exec("echo $PPID").text.strip()
    both = [process for process in usage.processes([session]) if _inner_pid(process) in ("1", supervisor)]
    if len(both) != 2:
        raise RuntimeError(f"cannot find the supervisor and the first process: {len(both)} of 2")
    rollups = "".join((process / "smaps_rollup").read_text() for process in both)
    pss, rss = (sum(map(int, re.findall(rf"^{key}:\s+(\d+) kB", rollups, re.M))) for key in ("Pss", "Rss"))
    return pss << 10, rss << 10


def _inner_pid(process: Path) -> str:
    """Return the id of a process in its own namespace; empty for one that has ended."""
    with suppress(OSError, IndexError):
        return str(re.findall(r"^NSpid:.*?(\d+)$", (process / "status").read_text(), re.M)[0])
    return ""
