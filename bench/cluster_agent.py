"""The cost of a node for its machine: `python -m bench.cluster_agent --sessions 50 --active 5 --seconds 120`.

A node with many sessions, of which some are used all the time, with a real database and registry. Figures
are processor time of the server, of its keeper and of the engine, as parts of all processors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.machines.agent_loop import Agent
from tests.machines.nodes import Lab, Node

from holdfast.engine.engine import Engine
from holdfast.images import build
from holdfast.runtime.cluster.cluster_rows import LeaseTerms

LOSS = "60s"
_ENGINE = ("dockerd", "containerd", "containerd-shim")


def spent(pid: int) -> float:
    """Return the processor seconds of a process and of its children that have ended; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def parts(node: Node) -> dict[str, float]:
    """Return the processor seconds of a machine's parts so far."""
    engine = [pid for pid, name in node.machine.daemon.processes().items() if name.startswith(_ENGINE)]
    return {
        "server": spent(node.pid),
        "keeper": spent(node.keeper() or 0),
        "engine": sum(map(spent, engine)),
    }


def measured(lab: Lab, sessions: int, active: int, seconds: float) -> dict[str, float]:
    """Return the parts of all processors that a node with so many sessions takes."""
    node = lab.node("rack1")
    lab.lead_to(node)
    with lab.client() as hf:
        for number in range(sessions):
            hf.new(f"s{number}", memory="256m").exec("n=0", timeout=120)
    for number in range(sessions):
        lab.copied(f"s{number}")
    loops = [Agent(lab, name=f"s{number}") for number in range(active)]
    for loop in loops:
        loop.start()
    time.sleep(5)
    before, began = parts(node), time.monotonic()
    calls = sum(len(loop.results) for loop in loops)
    time.sleep(seconds)
    took = time.monotonic() - began
    after = parts(node)
    calls = sum(len(loop.results) for loop in loops) - calls
    for loop in loops:
        loop.ends.set()
    for loop in loops:
        loop.join(60)
    whole = took * (os.cpu_count() or 1)
    return {
        "sessions": sessions,
        "active": active,
        "seconds": round(took, 1),
        "commands": calls,
        **{name: round((after[name] - before[name]) / whole, 4) for name in after},
    }


def main(words: Iterable[str]) -> None:
    """Measure as the command line says, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_agent")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--active", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=120)
    chosen = parser.parse_args(list(words))
    engine = Engine.connect()
    images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
    with (
        tempfile.TemporaryDirectory(prefix="hf-agent-", dir="/var/tmp") as folder,
        Lab(Path(folder), images, engine, terms=LeaseTerms(), loss=LOSS) as lab,
    ):
        print(json.dumps(measured(lab, chosen.sessions, chosen.active, chosen.seconds), indent=2))
    engine.close()


if __name__ == "__main__":
    main(sys.argv[1:])
