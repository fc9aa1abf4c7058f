"""From nothing to a first command or cell, compared with `docker run` of the same image."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.plan import Plan
from bench.rounds import take_turns, timed
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Session
from holdfast.base import polling
from holdfast.images import build

FAMILY = "new session"
DOCKER = "docker"
_OTHER = "another image to first command"
_COMMAND = Target(1.0, "ratio", "as fast as the engine")
_POOL_COMMAND, _POOL_CELL = "session of a pool to first command", "session of a pool to first cell"
_POOLED = {
    _POOL_COMMAND: Target(0.25, "ratio", "it waits already"),
    _POOL_CELL: Target(0.35, "ratio", "its kernel waits already"),
}
_POOL_SECONDS = 60.0
_CELL = Target(1.5, "ratio", "half as much again for an interpreter that is ready")


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure all ways to start: cold, warm, and from a pool."""

    def started(
        do: Callable[[Session], object], *, warm: bool = False, image: str | None = None
    ) -> Callable[[], list[float]]:
        def turn() -> list[float]:
            taken = timed(lambda: do(world.holdfast.new("create", warm=warm, image=image)))
            world.holdfast.remove_session("create")
            return [taken]

        return turn

    def pooled(do: Callable[[Session], object]) -> Callable[[], list[float]]:
        pool = world.holdfast.pool

        def turn() -> list[float]:
            pool.set(1, kernel=True)
            if not polling.until(lambda: len(pool.waiting()) == 1 and not pool.at_work, _POOL_SECONDS):
                raise RuntimeError(f"no session waits in the pool: {pool.trouble}")
            taken = timed(lambda: do(world.holdfast.new("create")))
            if (used := world.holdfast.session("create").as_dict()["pool"]) != {"used": True}:
                raise RuntimeError(f"the session did not wait in the pool: {used}")
            pool.set(0)  # the next contender starts without one, and with the machine to itself
            polling.until(lambda: not pool.at_work and not pool.waiting(), _POOL_SECONDS)
            world.holdfast.remove_session("create")
            return [taken]

        return turn

    def docker() -> list[float]:
        taken = timed(world.docker_run)
        world.sweep()
        return [taken]

    contenders = {
        "new session to first command": started(lambda made: made.exec("true")),
        _OTHER: started(
            lambda made: made.exec("true"), image=build.obtain_base(world.holdfast.engine.images, world.tell)
        ),
        "new session to first cell": started(lambda made: made.cell("1")),
        "warm session to first command": started(lambda made: made.exec("true"), warm=True),
        "warm session to first cell": started(lambda made: made.cell("1"), warm=True),
        _POOL_COMMAND: pooled(lambda made: made.exec("true")),
        _POOL_CELL: pooled(lambda made: made.cell("1")),
    }
    found = take_turns(plan.create, {DOCKER: docker, **contenders}, world.tell)
    other = found.pop(_OTHER)
    yield Row(
        FAMILY,
        _OTHER,
        Series("Holdfast, on an image that was not made for it", "s", other),
        baseline=Series("on its own image", "s", found["new session to first command"]),
        target=Target(1.1, "ratio", "nothing but the guest's Python differs"),
    )
    for name in [each for each in contenders if each != _OTHER]:
        yield Row(
            FAMILY,
            name,
            Series("Holdfast", "s", found[name]),
            baseline=Series("docker run … true", "s", found[DOCKER]),
            target=_POOLED.get(name, _CELL if name.endswith("cell") else _COMMAND),
        )
    world.forget()
