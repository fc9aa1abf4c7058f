"""A live snapshot with either image store of one engine: Docker's own (overlay2) and that of containerd.

Both run beside this machine's engine, from a system of Debian's packages; that needs root and `mmdebstrap`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.machines import debian
from tests.machines.second import Machine

from bench.plan import Plan
from bench.rounds import take_turns
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Holdfast, Session
from holdfast.images import build
from holdfast.snapshots import service

FAMILY = "image stores"
STORES = ("overlay2", "containerd")
_SAME = Target(1.2, "ratio", "its files are copied before the freeze as well")
_CHANGE = "head -c 4M /dev/urandom > /srv/new; rm -f /etc/motd; echo more >> /etc/debian_version"


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure snapshots of a session that has changed 4 MiB of files since the last one."""
    with ExitStack() as started:
        # The other system sees /tmp at the same path; a socket's path has 108 bytes at most (unix(7)).
        folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp")))
        images = [build.ensure(world.holdfast.engine.images, kind) for kind in build.ALWAYS]
        world.tell("starting an engine with each store")
        system = debian.engine_root(debian.default_cache())
        sessions = {}
        for store in STORES:
            machine = Machine(
                _made(folder / store[0]),
                images,
                of=world.holdfast.engine,
                system=system,
                store=store,
            )
            there = started.enter_context(started.enter_context(machine).holdfast())
            sessions[store] = there.new("stores")
            started.callback(_clear, there)
        frozen: dict[str, list[float]] = {store: [] for store in STORES}
        contenders = {store: _turn(session, frozen[store]) for store, session in sessions.items()}
        totals = take_turns(plan.heap, contenders, world.tell)
    for name, found in (
        ("frozen", {store: tuple(each[1:]) for store, each in frozen.items()}),
        ("total", totals),
    ):
        yield Row(
            FAMILY,
            f"snapshot with containerd's store, {name}",
            Series("Holdfast", "s", found["containerd"]),
            baseline=Series("overlay2", "s", found["overlay2"]),
            target=_SAME,
        )


def _turn(session: Session, frozen: list[float]) -> Callable[[], list[float]]:
    def turn() -> list[float]:
        session.exec(_CHANGE)
        begun = time.perf_counter()
        snapshot = session.snapshot()
        seconds = time.perf_counter() - begun
        frozen.append(float(snapshot.row.details["frozen_seconds"]))
        snapshot.remove()
        return [seconds]

    return turn


def _clear(there: Holdfast) -> None:
    for session in there.sessions():
        session.remove()
    for snapshot in there.snapshots():
        snapshot.remove()
    service.stop(there.engine, there.home)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
