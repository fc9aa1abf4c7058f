"""The cost of frequent acts: requests, bytes written, processor time over a floor; never wall time.

Counts are exact. Other work on the machine makes any processor time longer, but none shorter: an excess is
measured again, next to its floor, and the least counts. The limits leave no room for the faults that once
made snapshots several times slower unnoticed.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from tests.packing import ended

from bench import usage
from holdfast import Holdfast, Session, Snapshot
from holdfast.snapshots import service
from holdfast.snapshots.link import CheckpointerLink

HEAP = 256 << 20
FILL = f"import os, random; heap = bytearray(os.urandom({HEAP}))"
CHANGE = f"for page in random.sample(range({HEAP >> 12}), {HEAP // 409600}): heap[page << 12] ^= 1"


def _requests(controller: Holdfast, do: Callable[[], object]) -> list[str]:
    """Return the requests to the engine, as method and path.

    A guest that is slow to start is asked for again and again, which depends on the machine: once counts.
    """
    asked: list[str] = []
    api: Any = controller.engine.client.api
    send = api.send

    def counted(request: Any, **options: Any) -> Any:
        asked.append(f"{request.method} {request.path_url}")
        return send(request, **options)

    api.send = counted
    try:
        do()
    finally:
        del api.send
    return [one for one, _ in itertools.groupby(asked)]


def _processor(who: int = resource.RUSAGE_SELF) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _command(*words: str, environment: dict[str, str] | None = None) -> float:
    """Return the processor time of a command."""
    quiet = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1)]
    pid = os.posix_spawn(
        sys.executable, [sys.executable, *words], environment or os.environ, file_actions=quiet
    )
    _, status, used = os.wait4(pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime


def _hashing() -> float:
    """Return the processor time for digests of as much as the heap has."""
    data = os.urandom(1 << 20)
    begun = _processor()
    for _ in range(HEAP >> 20):
        blake3(data).digest()
    return _processor() - begun


def _snapshot(controller: Holdfast, session: Session) -> tuple[Snapshot, float]:
    """Return a snapshot, whose caller writes next to nothing, and its processor time."""
    assert ended(controller.home)  # what a child has written counts as its parent's once it is collected
    written, begun = _written(), _processor()
    taken = session.snapshot()
    spent = _processor() - begun
    assert _written() - written <= 1 << 20
    return taken, spent


def _written() -> int:
    """Return the bytes that this process has written so far (proc_pid_io(5))."""
    return int(Path("/proc/self/io").read_text().partition("wchar: ")[2].split()[0])


def _asked_of_the_checkpointer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the operations the checkpointer is asked for."""
    asked: list[str] = []

    class Noted(CheckpointerLink):
        def __init__(self, where: Path, op: str, /, **fields: object) -> None:
            asked.append(op)
            super().__init__(where, op, **fields)

    monkeypatch.setattr(service, "CheckpointerLink", Noted)
    return asked


def test_the_engine_is_asked_a_few_times(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request takes milliseconds, and more where many containers run.

    The checkpointer begins a process for each request: a snapshot does not need a greeting of its own.
    """
    hf.new("before").snapshot()  # images, checkpointer and network are there

    new = _requests(hf, lambda: hf.new("work"))
    session = hf.session("work")
    taken = []
    asked = _asked_of_the_checkpointer(monkeypatch)
    snapshot = _requests(hf, lambda: taken.append(session.snapshot()))
    assert asked == ["check", "files", "dump", "describe"]
    restore = _requests(hf, lambda: taken[0].restore("copy"))
    fork = _requests(hf, lambda: taken[0].fork(3, name="twin"))
    ran = _requests(hf, lambda: session.exec("true"))

    assert ran == []
    assert len(new) <= 7, new
    # What the engine reports of itself is asked again when it is five seconds old.
    assert len([one for one in snapshot if not one.endswith("/info")]) <= 5, snapshot
    assert len(restore) <= 9, restore
    assert len(fork) <= 25, fork


@pytest.mark.parametrize("verb", [("exec", "shared", "true"), ("ls",)], ids=["exec", "ls"])
def test_a_frequent_verb_takes_a_few_times_the_processor_time_of_python_itself(
    shared_cli: Any, verb: tuple[str, ...]
) -> None:
    """It is about three and a half; `test_light_verbs.py` has the counts."""
    floors, found = [], []
    for _ in range(40):
        floors.append(_command("-c", "pass"))
        found.append(_command("-m", "holdfast", *verb, environment=shared_cli.environment))
        if min(found) <= 5 * min(floors):
            break
    assert min(found) <= 8 * min(floors)


def test_the_caller_of_a_snapshot_neither_writes_nor_packs_its_memory(hf: Holdfast) -> None:
    """Beside what a small one takes, it makes digests; the packer stores what has changed."""
    session = hf.new("work")
    session.exec("true")
    session.snapshot()
    small, hashing, spent = [], [], []
    for _ in range(5):
        session.cell("heap = None")
        small.append(_snapshot(hf, session)[1])
        session.cell(FILL, timeout=60)
        hashing.append(_hashing())
        taken, used = _snapshot(hf, session)
        spent.append(used)
        if min(spent) <= 1.5 * min(small) + 3 * min(hashing):
            break

    assert min(spent) <= 2 * min(small) + 5 * min(hashing)
    assert taken.pack().row.details["storage"]["own"] <= 1.1 * HEAP
    session.cell(CHANGE, timeout=60)
    assert session.snapshot().pack().row.details["storage"]["own"] <= 0.05 * HEAP


def test_a_session_that_rests_uses_next_to_no_processor_time(shared: Session) -> None:
    """At the prompt nothing ticks; only the kernel's threads wake up a few times a second."""
    assert shared.cell("1").ok
    found: list[float] = []
    while len(found) < 5 and min(found, default=1.0) > 0.1:
        time.sleep(1)
        before = usage.spent([shared])
        time.sleep(3)
        found.append(usage.spent([shared]) - before)
    assert min(found) <= 0.1
