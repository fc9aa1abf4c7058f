"""`exec true`, compared with other ways to run a command in a container."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from bench.plan import Plan
from bench.rounds import Contender, batch, take_turns
from bench.row import Row, skipped
from bench.stats import Series, Target
from bench.world import World, container_of, docker

FAMILY = "exec true"
BATCH = 40
PEER_BATCH = 4


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure, and yield median and p99 over each peer."""
    session = world.session("execute")
    container = container_of(session)
    api = world.holdfast.engine.client.api

    def ours() -> None:
        if session.exec("true").exit_code != 0:
            raise RuntimeError("cannot run true in the session")

    def raw_api() -> None:
        made = api.exec_create(container, ["true"])["Id"]
        api.exec_start(made)
        if api.exec_inspect(made)["ExitCode"] != 0:
            raise RuntimeError("cannot run true through the engine's API")

    contenders: dict[str, Contender] = {
        "Holdfast": batch(BATCH, ours),
        "docker exec, command line": batch(PEER_BATCH, lambda: docker("exec", container, "true")),
        "docker exec, raw API": batch(PEER_BATCH, raw_api),
    }
    with _swe_rex() as (rex, why):
        if rex is not None:
            contenders["SWE-ReX bash session"] = rex
        found = take_turns(plan.execute, contenders, world.tell)
    session.remove()

    ours_found = Series("Holdfast", "s", found.pop("Holdfast"))
    yield Row(FAMILY, "exec true", ours_found, statistic="p99")
    for who, samples in found.items():
        least = 1 / 20 if who.startswith("SWE-ReX") else 1 / 10
        yield Row(
            FAMILY,
            "exec true",
            ours_found,
            baseline=Series(who, "s", samples),
            target=Target(least, "ratio", "a persistent shell needs no new process in a new namespace"),
            note=f"{who}: p99 {Series(who, 's', samples).at(0.99) * 1000:.1f} ms",
        )
    if rex is None:
        yield skipped(FAMILY, "exec true", "SWE-ReX bash session", why)


@contextmanager
def _swe_rex() -> Iterator[tuple[Contender | None, str]]:
    """Return SWE-ReX's bash session on this host, without its HTTP server and container: its
    shortest path.
    """
    try:
        from swerex.runtime.abstract import BashAction, CreateBashSessionRequest
        from swerex.runtime.local import BashSession
    except ImportError as error:
        yield None, f"cannot import it: {error}; `setup/venv --bench` installs it"
        return
    logging.getLogger("rex-session").setLevel(logging.ERROR)
    with asyncio.Runner() as loop:
        session = BashSession(CreateBashSessionRequest(startup_source=[]))
        loop.run(session.start())

        def one() -> None:
            if loop.run(session.run(BashAction(command="true", timeout=30))).exit_code != 0:
                raise RuntimeError("cannot run true in SWE-ReX's session")

        try:
            yield batch(PEER_BATCH, one), ""
        finally:
            loop.run(session.close())
