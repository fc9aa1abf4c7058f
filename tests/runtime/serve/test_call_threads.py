"""Threads are kept for the next work, do concurrent work concurrently, and end when there is none."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from holdfast.base import polling
from holdfast.runtime.serve import call_threads
from holdfast.runtime.serve.call_threads import CallThreads, Parked, WorkerThreads

SECONDS = 30.0


def threads_of(workers: WorkerThreads, count: int) -> set[int]:
    """Return the threads that do that amount of concurrent work."""
    found: set[int] = set()
    meeting, reported = threading.Barrier(count), threading.Semaphore(0)

    def work() -> Callable[[], None]:
        found.add(threading.get_ident())
        meeting.wait(SECONDS)
        return lambda: reported.release()

    for _ in range(count):
        workers.do(work)
    for _ in range(count):
        assert reported.acquire(timeout=SECONDS)
    return found


def test_work_at_once_has_a_thread_each_and_work_after_it_has_the_same() -> None:
    workers = WorkerThreads()
    first = threads_of(workers, 8)
    assert len(first) == 8
    for count in (1, 5, 8):
        assert threads_of(workers, count) <= first
    assert len(threads_of(workers, 9) - first) == 1


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_threads, "IDLE_SECONDS", 0.05)
    workers = WorkerThreads()
    first = threads_of(workers, 4)
    assert polling.until(lambda: not first & {each.ident for each in threading.enumerate()}, SECONDS)
    assert len(threads_of(workers, 4)) == 4


def test_no_work_is_lost_to_a_thread_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is given in the moment in which an idle thread gives up waiting."""
    monkeypatch.setattr(call_threads, "IDLE_SECONDS", 0.0005)
    workers, done = WorkerThreads(), threading.Semaphore(0)
    pause = threading.Event()
    for number in range(500):
        workers.do(lambda: lambda: done.release())
        assert done.acquire(timeout=SECONDS)
        pause.wait(0.0001 * (number % 10))


def test_an_idle_thread_does_not_keep_finished_work() -> None:
    class Large:
        pass

    workers, done = WorkerThreads(), threading.Event()
    large = Large()
    kept = weakref.ref(large)

    def work(held: Large = large) -> Callable[[], None]:
        return done.set

    workers.do(work)
    assert done.wait(SECONDS)
    work.__defaults__ = None
    del large, work

    def gone() -> bool:
        gc.collect()
        return kept() is None

    assert polling.until(gone, SECONDS)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Leave what is in cycles of references where it is."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Large:
    """The content of a file in transit, for example."""


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("how", ["returned", "raised", "parked"])
def test_what_a_call_held_is_freed_with_it(how: str) -> None:
    """A collection of cycles can be minutes away: until then a server would hold all that it has sent."""
    held: list[weakref.ref[Large]] = []
    parked: list[Parked] = []

    def work() -> Large | Parked:
        large = Large()
        held.append(weakref.ref(large))
        if how == "parked" and not parked:
            parked.append(Parked())
            return parked[0]
        if how == "raised":
            raise RuntimeError("it holds what the function held")
        return large

    async def calls() -> None:
        threads = CallThreads(8)
        for _ in range(5):
            if how == "parked":
                parked.clear()
                asyncio.get_running_loop().call_later(0.05, lambda: parked[0].wake())
            with suppress(RuntimeError):
                await threads.run(work)
        await asyncio.sleep(0)

    asyncio.run(calls())
    assert len(held) >= 5
    assert polling.until(lambda: not any(each() is not None for each in held), SECONDS)
