"""`cell 1+1`, compared with a bare jupyter_client beside its kernel, in a container of the same image."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.plan import Plan
from bench.rounds import Contender, batch, take_turns
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World

FAMILY = "cell 1+1"
BATCH = 20
_PROGRAM = Path(__file__).parent.parent / "inside" / "bare_client.py"


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure, and yield median and p99."""
    session = world.session("cell")

    def ours() -> None:
        if session.cell("1+1").text != "2":
            raise RuntimeError("cannot add 1 and 1 in the session's kernel")

    with _bare(world) as bare:
        found = take_turns(plan.cell, {"ours": batch(BATCH, ours), "bare": bare}, world.tell)
    session.remove()
    ours_found = Series("Holdfast", "s", found["ours"])
    bare_found = Series("bare jupyter_client", "s", found["bare"])
    target = Target(1.5, "ratio", "the way into the container may cost half of what the kernel takes")
    yield Row(FAMILY, "cell 1+1", ours_found, baseline=bare_found, target=target)
    yield Row(FAMILY, "cell 1+1", ours_found, statistic="p99", baseline=bare_found)


@contextmanager
def _bare(world: World) -> Iterator[Contender]:
    command = [
        "docker",
        "run",
        "-i",
        "--rm",
        "--label",
        world.label,
        world.image,
        "/usr/bin/python3",
        "-I",
        "-c",
    ]
    with subprocess.Popen(
        [*command, _PROGRAM.read_text()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def answer() -> list[float]:
            line = stdout.readline()
            if not line:
                raise RuntimeError("cannot run the bare client: it ended (what it said is above)")
            return [float(took) for took in json.loads(line)]

        def turn() -> list[float]:
            stdin.write(f"{BATCH}\n")
            stdin.flush()
            return answer()

        answer()
        try:
            yield turn
        finally:
            stdin.close()
            process.wait(timeout=60)
