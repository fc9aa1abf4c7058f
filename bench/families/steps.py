"""A way back after each step: the cost of snapshots one after the other, and of going back to one of them.

Sessions here are ordinary unless a row says otherwise: a shell, a kernel, and a few changed bytes in a file.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator

from bench.plan import MIB, Plan
from bench.rounds import timed
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Session, Snapshot
from holdfast.snapshots import earlier_memory

FAMILY = "a snapshot after each step"
_DOCKER = "docker run … true"
_HEAP = 1024 * MIB
_FILES = 10_000
_BEGIN = """
set -e; cd /srv; rm -rf work; mkdir work; cd work
git init -q .; git config user.email a@b; git config user.name a
"""
_COMMANDS = (
    "echo 'def f{n}(): return {n}' >> code.py",
    "printf 'import code_{n}\\n' > test_{n}.py; cp code.py code_{n}.py; python3 -m unittest -q test_{n}",
    "git add -A; git commit -qm 'step {n}'",
    "python3 -c 'import json; print(json.dumps([n * n for n in range(1000000)])[:9])'",
    "grep -rn 'f{n}' /usr/share/doc | head -3",
    "git log --oneline | head -3; ls -la | tail -3",
)
_WORDS = 30
_WRITER = """
import os, resource
block = bytearray(os.urandom({heap}))
heap = bytearray(len(block))
def passes():
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range({passes}):
        heap[:] = block
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
"""
_WRITTEN = 256 * MIB
_PASSES = 60
_THINKING = 2.0
"""Seconds between an agent's commands: models take longer."""


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure chains of snapshots, large memory, many files, automatic snapshots, and ways back."""
    runs = _Runs(world)
    yield from _chain(world, plan, runs)
    yield from _memory(world, plan, runs)
    yield from slowed_down(world, plan)
    yield from _files(world, plan)
    yield from _policy(world)


class _Runs:
    """The baseline: one `docker run` beside each measurement that starts containers."""

    def __init__(self, world: World) -> None:
        self._world = world

    def seconds(self) -> float:
        taken = timed(self._world.docker_run)
        self._world.sweep()
        return taken


def _chain(world: World, plan: Plan, runs: _Runs) -> Iterator[Row]:
    """One hundred snapshots in a row; each follows a command that changes a file."""
    session = world.session("steps")
    session.cell("kept = 1")
    length = 100 if plan.create > 3 else 12
    total: list[float] = []
    frozen: list[float] = []
    used: list[float] = []
    taken: list[Snapshot] = []
    for turn in range(length):
        world.tell(f"snapshots in a row: {turn + 1} of {length}")
        session.exec(f"echo {turn} > /srv/step")
        seconds, used_here, snapshot = _snapshot(session)
        total.append(seconds)
        used.append(used_here)
        frozen.append(_frozen(snapshot))
        taken.append(snapshot)
    last = total[-len(total) // 5 :]
    yield _row("snapshot after a small change, frozen", frozen, limit=Target(0.05, "value", "nobody notices"))
    yield _row("snapshot after a small change, total", total, limit=Target(0.15, "value", "nobody waits"))
    yield _row("snapshot after a small change, caller's processor time", used)
    yield _row(
        f"snapshots {length - len(last) + 1} to {length}, total",
        last,
        over=Series("snapshots 2 to 20", "s", tuple(total[1:20])),
        limit=Target(1.1, "ratio", "the last as quick as the tenth"),
    )
    world.await_packer()
    found: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(plan.storage + 2):
        for which, snapshot in (("first", taken[0]), ("last", taken[-1])):
            found[which].append(_restored(snapshot))
        found["docker"].append(runs.seconds())
    yield _row(
        "restore to first command",
        found["first"],
        over=_seconds(_DOCKER, found["docker"]),
        limit=Target(1.5, "ratio", "hardly more than a container"),
    )
    yield _row(
        f"restore of number {length}",
        found["last"],
        over=_seconds("of the first", found["first"]),
        limit=Target(1.1, "ratio", "a chain costs nothing"),
    )
    world.forget()


def _memory(world: World, plan: Plan, runs: _Runs) -> Iterator[Row]:
    """A gigabyte of which one percent is written between snapshots; from the second on, writes are noted."""
    session = world.session("steps")
    session.cell(f"import os; heap = bytearray(os.urandom({_HEAP}))", timeout=300)
    world.tell("1 GiB: first snapshot")
    first = session.snapshot()
    session.exec("true")
    session.snapshot()
    found: defaultdict[str, list[float]] = defaultdict(list)
    for turn in range(plan.storage + 2):
        world.tell(f"1 GiB: 1 % written, {turn + 1} of {plan.storage + 2}")
        session.cell(
            "start = os.urandom(1)[0] * 4096 * 900; heap[start:start + len(heap) // 100] = "
            "os.urandom(len(heap) // 100)",
            timeout=300,
        )
        seconds, used, snapshot = _snapshot(session)
        found["total"].append(seconds)
        found["used"].append(used)
        found["frozen"].append(_frozen(snapshot))
        found["beside"].append(_restored(snapshot))
        world.await_packer()
        found["restore"].append(_restored(snapshot))
        found["docker"].append(runs.seconds())
    for turn in range(plan.storage):
        world.tell(f"1 GiB: ways back, {turn + 1} of {plan.storage}")
        found["docker"].append(runs.seconds())
        found["rewind"].append(timed(lambda: _back(session, first)))
        found["fork"].append(_forked(first, 10))
    docker = _seconds(_DOCKER, found["docker"])
    group = "1 GiB, 1 % written"
    yield _row("snapshot, frozen", found["frozen"], group, limit=Target(0.06, "value", "cost follows change"))
    yield _row("snapshot, total", found["total"], group, limit=Target(0.2, "value", "cost follows change"))
    yield _row("snapshot, caller's processor time", found["used"], group)
    restore = Target(1.5, "ratio", "hardly more than a container")
    yield _row("restore to first command", found["restore"], "1 GiB", over=docker, limit=restore)
    yield _row(
        "restore to first command, while the packer works",
        found["beside"],
        "1 GiB",
        over=docker,
        limit=restore,
    )
    yield _row(
        "rewind", found["rewind"], "1 GiB", over=docker, limit=Target(5.0, "ratio", "a capture, and 2 starts")
    )
    yield _row(
        "fork of 10, all answered",
        found["fork"],
        "1 GiB",
        over=docker,
        limit=Target(7.0, "ratio", "containers start one after the other"),
    )
    world.forget()


def slowed_down(world: World, plan: Plan) -> Iterator[Row]:
    """Measure the processor time of a program that writes all pages of its heap over and over.

    After a snapshot its writes are noted, or not, in turns. The snapshot's copy of the heap, which also costs
    a page fault at the first write to each page, is made both times.
    """
    session = world.session("steps")
    session.cell(_WRITER.format(heap=_WRITTEN, passes=_PASSES), timeout=300)
    session.snapshot()
    found: defaultdict[str, list[float]] = defaultdict(list)
    before = os.environ.get(earlier_memory.VARIABLE)
    try:
        for turn in range(2 * plan.storage + 1):
            world.tell(f"a program that writes, {turn + 1} of {2 * plan.storage + 1}")
            for noted in ("1", "0") if turn % 2 else ("0", "1"):
                os.environ[earlier_memory.VARIABLE] = noted
                session.snapshot()
                session.cell("passes()", timeout=300)  # the copy of the heap is written by then
                session.snapshot()
                used = float(str(session.cell("print(passes())", timeout=300).text))
                if turn:
                    found[noted].append(used)
    finally:
        os.environ.pop(earlier_memory.VARIABLE, None)
        if before is not None:
            os.environ[earlier_memory.VARIABLE] = before
    yield _row(
        f"{_PASSES} times all of 256 MiB written after a snapshot, processor time",
        found["1"],
        over=_seconds("writes not noted", found["0"]),
        limit=Target(1.05, "ratio", "a program does not feel it"),
    )
    pages = _WRITTEN // 4096
    more = [(noted - plain) / pages for noted, plain in zip(found["1"], found["0"], strict=True)]
    yield _row("first write to a page after a snapshot, more processor time", more)
    world.forget()


def _files(world: World, plan: Plan) -> Iterator[Row]:
    """300 MB in ten thousand files, of which two bytes of one change."""
    session = world.session("steps")
    session.exec(
        f"mkdir -p /srv/many; cd /srv/many; "
        f"for n in $(seq {_FILES}); do head -c 30000 /dev/urandom > f$n; done",
        timeout=600,
    )
    world.tell("10,000 files: first snapshot")
    session.snapshot().pack()
    seconds, stored = [], []
    for turn in range(plan.storage):
        world.tell(f"10,000 files: two bytes changed, {turn + 1} of {plan.storage}")
        session.exec("printf xy | dd of=/srv/many/f77 bs=1 seek=100 conv=notrunc status=none")
        taken, _, snapshot = _snapshot(session)
        seconds.append(taken)
        stored.append(float(snapshot.pack().size))
        world.await_packer()
    group = "10,000 files, 2 bytes changed"
    yield _row("snapshot, total", seconds, group, limit=Target(0.25, "value", "cost follows change"))
    yield Row(
        FAMILY,
        "bytes stored, memory included",
        Series("Holdfast", "bytes", tuple(stored)),
        group,
        baseline=Series("of files", "bytes", (30000.0 * _FILES,)),
    )
    world.forget()


def _policy(world: World) -> Iterator[Row]:
    """The commands of an agent that edits, tests and commits, with a snapshot after each and without."""
    found: dict[str, float] = {}
    for name, every in (("without", None), ("every command", 1)):
        world.tell(f"an agent's commands, {name}")
        session = world.session("steps")
        session.policy(every=every)
        session.exec(_BEGIN)
        found[name] = timed(lambda session=session: _work(session))  # type: ignore[misc]
        world.forget()
    yield _row(
        f"{_WORDS} commands of an agent, policy --every 1",
        [found["every command"]],
        over=_seconds("without snapshots", [found["without"]]),
        limit=Target(1.1, "ratio", "a tenth of the time"),
    )


def _work(session: Session) -> None:
    for number in range(_WORDS):
        session.exec("cd /srv/work; " + _COMMANDS[number % len(_COMMANDS)].format(n=number))
        time.sleep(_THINKING)


def _snapshot(session: Session) -> tuple[float, float, Snapshot]:
    """Take a snapshot; return its seconds, the processor time of this process, and it."""
    used, begun = time.process_time(), time.perf_counter()
    snapshot = session.snapshot()
    return time.perf_counter() - begun, time.process_time() - used, snapshot


def _frozen(snapshot: Snapshot) -> float:
    return float(snapshot.row.details["frozen_seconds"])


def _restored(snapshot: Snapshot) -> float:
    begun = time.perf_counter()
    made = snapshot.restore()
    made.exec("true")
    taken = time.perf_counter() - begun
    made.remove()
    return taken


def _back(session: Session, snapshot: Snapshot) -> None:
    session.rewind(snapshot)
    session.exec("true")


def _forked(snapshot: Snapshot, count: int) -> float:
    forks: list[Session] = []
    begun = time.perf_counter()
    forks += snapshot.fork(count)
    for fork in forks:
        fork.exec("true")
    taken = time.perf_counter() - begun
    for fork in forks:
        fork.remove()
    return taken


def _seconds(who: str, samples: list[float]) -> Series:
    return Series(who, "s", tuple(samples))


def _row(
    name: str,
    samples: list[float],
    group: str = "",
    *,
    over: Series | None = None,
    limit: Target | None = None,
) -> Row:
    return Row(FAMILY, name, _seconds("Holdfast", samples), group, baseline=over, target=limit)
