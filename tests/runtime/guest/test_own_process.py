import asyncio
import time
from collections.abc import Iterator

import pytest

from holdfast.runtime.guest.own_process import MAX_STEP, SteadyLoop


@pytest.fixture
def loop() -> Iterator[SteadyLoop]:
    made = SteadyLoop()
    yield made
    made.close()


@pytest.mark.parametrize("jump", [MAX_STEP + 3600, -86400.0])
def test_a_jump_of_the_clock_is_hidden_while_expected(
    loop: SteadyLoop, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """Neither a long freeze nor a machine that booted later moves the loop's time."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    loop.look()
    loop.watchful = True
    before = loop.time()
    clock[0] += jump
    assert loop.time() == before
    clock[0] += 0.5
    assert loop.time() == before + 0.5


def test_time_passes_unhindered_otherwise(loop: SteadyLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle loop can sleep for hours, and that time counts."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    loop.look()
    before = loop.time()
    clock[0] += 7200
    assert loop.time() == before + 7200


def test_the_loop_runs_timers_and_readers(loop: SteadyLoop) -> None:
    """Timers run on it."""
    assert loop.run_until_complete(asyncio.sleep(0, "done")) == "done"
