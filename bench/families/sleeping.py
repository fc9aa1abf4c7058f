"""Many sessions of which few are active: their memory, and how long one that sleeps takes to answer."""

from __future__ import annotations

from collections.abc import Iterator

from bench import usage
from bench.plan import Plan
from bench.rounds import timed
from bench.row import Row
from bench.stats import Series
from bench.world import World
from holdfast import Session
from holdfast.runtime.lifetimes import session_ends

FAMILY = "sleeping sessions"
ACTIVE = 5
_CELL = "data = list(range(10_000)); len(data)"


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Make sessions, let all but five sleep, and wake one after the other; each has a shell and a kernel.

    A woken session sleeps again before the next one wakes, so as many are active all the time.
    """
    count = 100 if plan.create > 3 else 8
    wakes = 100 if plan.create > 3 else 6
    active = [_made(world, f"active-{number}") for number in range(ACTIVE)]
    asleep = []
    for number in range(count - ACTIVE):
        world.tell(f"session {number + 1 + ACTIVE} of {count}")
        asleep.append(_made(world, f"asleep-{number}"))
        if number == 0:
            one = usage.held(asleep)
        _sleep(world, asleep[-1])
    world.await_packer()
    every = [*active, *(each.refresh() for each in asleep)]
    held = usage.held(every)
    group = f"{count} sessions, {ACTIVE} active"
    yield Row(
        FAMILY,
        "memory",
        Series("Holdfast", "bytes", (held,)),
        group=group,
        baseline=Series(f"{count} × one that is active", "bytes", (one * count,)),
        note="PSS of all processes in their containers",
    )
    containers = world.holdfast.engine.containers(holdfast_home=world.holdfast.home.digest)
    yield Row(FAMILY, "containers", Series("Holdfast", "count", (len(containers),)), group=group)
    disk = sum(each.stat().st_blocks * 512 for each in world.home.rglob("*") if each.is_file())
    yield Row(
        FAMILY,
        "disk of the home, for each that sleeps",
        Series("Holdfast", "bytes", (disk / len(asleep),)),
        group=group,
    )
    taken = []
    for number in range(wakes):
        world.tell(f"wake {number + 1} of {wakes}")
        session = asleep[number % len(asleep)]
        taken.append(timed(lambda: _answer(session)))  # noqa: B023 - called here
        _sleep(world, session)
    woken = Series("Holdfast", "s", tuple(taken))
    name = "sleeping session to the first byte of a command"
    yield Row(FAMILY, name, woken, group=f"{wakes} wakes")
    yield Row(FAMILY, name, woken, group=f"{wakes} wakes", statistic="p95")
    world.forget()


def _made(world: World, name: str) -> Session:
    session = world.session(name)
    session.cell(_CELL)
    return session


def _answer(session: Session) -> None:
    if session.exec("echo awake").text.strip() != "awake":
        raise RuntimeError("cannot wake the session")


def _sleep(world: World, session: Session) -> None:
    """Let a session sleep, as the server does for one that is unused."""
    context = world.holdfast.context
    session_ends.put_to_sleep(context, context.session_row(session.id), "end")
