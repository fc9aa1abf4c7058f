"""What frequent commands cost in a home that grows: sessions that idle, snapshots, entries of journals.

It takes 16 GB of memory and half an hour, and runs only if it is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.plan import Plan
from bench.row import Row
from bench.stats import Series, Target
from bench.usage import held, spent
from bench.world import World
from holdfast import Session

FAMILY = "a large home"
STEPS = (1, 25, 50, 100)
"""Sessions at which is measured."""
SNAPSHOTS, COMMANDS = 20, 1000
"""For each session."""
ROUNDS = 7
IDLE_SECONDS = 30.0
VERBS = {
    "ls": ("ls",),
    "snapshots": ("snapshots",),
    "journal S": ("journal", "S"),
    "pulse S": ("pulse", "S"),
    "exec S true": ("exec", "S", "true"),
}
_TWICE = Target(2.0, "ratio", "a command must not notice what else is in the home")
_MEDIANS = f"medians of {ROUNDS}"


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Grow a home to its largest; yield a row for each verb, whose samples are the medians at each step."""
    del plan
    found: dict[str, list[float]] = {verb: [] for verb in (*VERBS, "rmi", "gc")}
    sessions: list[Session] = []
    for step in STEPS:
        while len(sessions) < step:
            world.tell(f"{len(sessions)} of {STEPS[-1]} sessions")
            sessions.append(_filled(world, f"s{len(sessions)}"))
        world.tell(f"measuring with {step}")
        for verb, seconds in _measured(world, sessions[0]).items():
            found[verb].append(seconds)
    for verb, medians in found.items():
        first = Series(f"with {STEPS[0]} session", "s", (medians[0],))
        target = _TWICE if verb != "gc" else None
        yield Row(
            FAMILY,
            verb,
            Series("Holdfast", "s", (medians[-1],)),
            baseline=first,
            target=target,
            note=f"{_MEDIANS} at {STEPS} sessions: {', '.join(f'{one:.4f}' for one in medians)}",
        )
    yield from _idle(sessions)
    for session in sessions:
        session.remove()
    world.holdfast.remove_snapshots(*(each.id for each in reversed(world.holdfast.snapshots())))
    world.forget()


def curves(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return the medians of each verb at each step, from rows of this family."""
    return {
        row.name: [float(one) for one in row.note.partition(": ")[2].split(", ")]
        for row in rows
        if row.family == FAMILY and row.note.startswith(_MEDIANS)
    }


def _filled(world: World, name: str) -> Session:
    session = world.session(name)
    session.cell("1")
    for _ in range(COMMANDS):
        session.exec("true")
    for _ in range(SNAPSHOTS):
        session.snapshot()
    return session


def _measured(world: World, session: Session) -> dict[str, float]:
    taken: dict[str, list[float]] = {verb: [] for verb in (*VERBS, "rmi", "gc")}
    for _ in range(ROUNDS):
        for verb, words in VERBS.items():
            taken[verb].append(_run(world.home, [session.name if word == "S" else word for word in words]))
        session.exec("echo changed > /tmp/changed")
        taken["rmi"].append(_run(world.home, ["rmi", session.snapshot().id]))
    taken["gc"].append(_run(world.home, ["gc"]))
    return {verb: sorted(samples)[len(samples) // 2] for verb, samples in taken.items()}


def _run(home: Path, words: Sequence[str]) -> float:
    environment = {**os.environ, "HOLDFAST_HOME": str(home)}
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "holdfast", *words], env=environment, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - started


def _idle(sessions: Sequence[Session]) -> Iterator[Row]:
    """Yield what a session costs that does nothing: processor time, memory of the supervisor."""
    before = spent(sessions)
    time.sleep(IDLE_SECONDS)
    share = (spent(sessions) - before) / IDLE_SECONDS / len(sessions)
    most = Target(0.003, "value", "0.3 % of a processor")
    idle = Series("Holdfast", "s", (share,))
    yield Row(FAMILY, "an idle session, processor time in each second", idle, target=most)
    memory = held(sessions) / len(sessions)
    yield Row(FAMILY, "an idle session with shell and kernel, memory", Series("Holdfast", "bytes", (memory,)))
