"""Threads are kept for the next work, do all that is given to them at once, and end when there is none."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from holdfast.base import polling
from holdfast.runtime.serve import call_threads
from holdfast.runtime.serve.call_threads import WorkerThreads

SECONDS = 30.0


def threads_of(workers: WorkerThreads, count: int) -> set[int]:
    """Return the threads that do as much work at once."""
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
