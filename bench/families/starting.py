"""What the command line costs: processor time of its process, compared with that of Python itself."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.plan import Plan
from bench.rounds import take_turns
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World

FAMILY = "command line"
_VERBS = {
    "--version": 2.5,
    "--help": 4.0,
    "ls": 4.0,
    "exec S true": 4.0,
    "exec --json S -- true": 4.0,
    "cell S 1": 4.0,
    "send S --key C-u": 4.0,
    "screen S": 6.0,
    "Tab after exec": 4.0,
}
_COMPLETING = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": "holdfast exec ", "COMP_CWORD": "2"}


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure; what the session itself does is not counted."""
    session = world.session("starting")
    session.exec("true")
    session.cell("1")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["HOLDFAST_HOME"] = str(world.home)

    def spent(*command: str, **more: str) -> Callable[[], list[float]]:
        def turn() -> list[float]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *command], env=environment | more, stdout=subprocess.DEVNULL, check=True
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]

        return turn

    contenders = {
        verb: spent("-m", "holdfast", **_COMPLETING)
        if verb.startswith("Tab")
        else spent("-m", "holdfast", *(session.name if word == "S" else word for word in verb.split()))
        for verb in _VERBS
    }
    found = take_turns(plan.create, {"python": spent("-c", "pass"), **contenders}, world.tell)
    for verb, most in _VERBS.items():
        yield Row(
            FAMILY,
            f"holdfast {verb}, processor time",
            Series("Holdfast", "s", found[verb]),
            baseline=Series("python -c pass", "s", found["python"]),
            target=Target(most, "ratio", "it starts like a tool"),
        )
    session.remove()
