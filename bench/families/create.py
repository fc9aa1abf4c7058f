"""From nothing to the first command's end, compared with `docker run` of the same image."""

from __future__ import annotations

from collections.abc import Iterator

from bench.plan import Plan
from bench.rounds import take_turns, timed
from bench.row import Row
from bench.stats import Series
from bench.world import World

FAMILY = "new session"


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure, and yield one row."""

    def ours() -> list[float]:
        with_first = timed(lambda: world.session("create").exec("true"))
        world.holdfast.remove_session("create")
        return [with_first]

    def dockers() -> list[float]:
        took = timed(world.docker_run)
        world.sweep()
        return [took]

    found = take_turns(plan.create, {"holdfast": ours, "docker": dockers}, world.tell)
    yield Row(
        FAMILY,
        "new session to first command",
        Series("Holdfast", "s", found["holdfast"]),
        baseline=Series("docker run … true", "s", found["docker"]),
    )
