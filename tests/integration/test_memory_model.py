"""Memory that comes on demand is compared with a model while a program does random things to it.

The program (`inside/memory_model.c`) does them from four threads: it touches, writes, gives back, maps again,
moves, protects and hides memory, forks, is traced, starts programs, and has system calls read what nothing
has touched. It is captured all the while; its forks are forked half loaded, suspended, ended in the middle.
`long/test_memory_for_hours.py` does the same for longer.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

MODEL = Path(__file__).parents[1] / "inside" / "memory_model.c"
FOLDER = "/srv/model"
THREADS, PAGES = 4, 4 * 6144
PATIENCE = 600.0
"""Seconds in which each thread of a copy does some operations; a thread that waits for ever never does."""
SOME = 40
"""Operations of each thread."""


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_every_page_is_as_in_the_model(hf: Holdfast) -> None:
    """For a minute, and for at least two rounds of copies."""
    assert explore(hf, 60.0, seed=time.time_ns()) >= 2


def explore(hf: Holdfast, seconds: float, seed: int) -> int:
    """Take copies of the program for some seconds, and compare each of them; return the number of rounds."""
    dice = random.Random(seed)
    sys.stdout.write(f"seed {seed}\n")  # shown when the test fails
    session = hf.new("model")
    session.exec(f"mkdir {FOLDER}; cat > {FOLDER}/model.c <<'END'\n{MODEL.read_text()}\nEND")
    made = session.exec(
        f"cd {FOLDER} && gcc -O2 -pthread -o model model.c && (./model {FOLDER} {seed} > log 2>&1 &)"
    )
    assert made.ok, made.text
    until(session, "the program has begun", lambda: session.exec(f"[ -s {FOLDER}/ready ]").ok)
    end = time.monotonic() + seconds
    rounds = 0
    while rounds < 2 or time.monotonic() < end:
        copies = list(session.fork(dice.choice((1, 2)), f"round{rounds}", eager=dice.random() < 0.2))
        goes_on(copies)
        first = copies[0]
        match dice.choice(("fork", "suspend", "check", "remove")):
            case "fork":  # of what is half loaded
                copies += first.fork(1, f"again{rounds}")
            case "suspend":
                first.suspend()
                first.resume()
            case "check":
                first.check()
            case _:  # while it loads
                first.remove()
                copies.remove(first)
        goes_on(copies)
        for each in copies:
            ends(each)
            each.remove()
        rounds += 1
    ends(session)
    return rounds


def goes_on(sessions: Sequence[Session]) -> None:
    """Wait until all threads have done some operations more, and check that nothing was wrong until then."""
    before = [done(each) for each in sessions]
    for session, counts in zip(sessions, before, strict=True):
        until(
            session,
            f"all threads go on from {counts}",
            lambda session=session, counts=counts: all(  # type: ignore[misc]
                now >= then + SOME for now, then in zip(done(session), counts, strict=True)
            ),
        )


def done(session: Session) -> list[int]:
    """Return the number of operations of each thread."""
    told = session.exec(
        f"cd {FOLDER}; for n in 0 1 2 3; do cat done-$n || echo 0; done 2>/dev/null"
    ).text.split()
    return [int(each) for each in told][:THREADS] + [0] * (THREADS - len(told))


def ends(session: Session) -> None:
    """Have the program end, and check that all of its pages were right."""
    session.exec(f"touch {FOLDER}/end")
    until(session, "the program has ended", lambda: session.exec(f"[ -s {FOLDER}/ended ]").ok)
    assert session.exec(f"cat {FOLDER}/ended").text == f"{PAGES}\n"
    check(session)


def check(session: Session) -> None:
    """Check that there was no error until now; the program prints nothing else either."""
    said = session.exec(f"cd {FOLDER}; touch wrong; head -c 3000 wrong log").text
    assert said == "==> wrong <==\n\n==> log <==\n", f"{session.name}: {said}"


def until(session: Session, what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        check(session)
        assert time.monotonic() < deadline, f"{session.name}: {what}: not within {PATIENCE} s"
        time.sleep(0.2)
    check(session)
