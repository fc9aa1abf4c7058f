"""Threads that are kept for a while for the next work: starting one takes as long as a brief call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

IDLE_SECONDS = 30.0
"""How long a thread waits for more work before it ends."""
Work = Callable[[], Callable[[], None]]
"""Does something, and returns what reports the result; raises nothing."""


class WorkerThreads:
    """As many threads as there is work at once, and those that have just become idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Work] = SimpleQueue()
        self._idle = 0
        """Threads for which nothing is queued."""

    def do(self, work: Work) -> None:
        """Do the work in a thread, at once.

        Raises:
            RuntimeError: no thread is idle, and no more can be started.
        """
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                self._queue.put(work)
                return
        threading.Thread(target=self._work, args=(work,), name="holdfast-call", daemon=True).start()

    def _work(self, work: Work | None) -> None:
        while work is not None:
            report = work()
            del work  # what it holds is not kept for as long as the thread is idle
            with self._lock:
                self._idle += 1
            report()  # the caller that hears of it finds this thread idle
            del report
            work = self._next()

    def _next(self) -> Work | None:
        """Return the next work; None if there was none for a while."""
        while True:
            try:
                return self._queue.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if (
                        self._queue.empty()
                    ):  # otherwise one was queued just now, and this thread is counted on
                        self._idle -= 1
                        return None
