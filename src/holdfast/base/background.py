"""Work that continues while its caller does something else; one thing at a time."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable


class Background:
    """Threads that the process waits for at its end. An error is the work's own business."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._registered = False

    def start(self, work: Callable[[], None]) -> None:
        """Begin something once what was begun before is done."""
        self.settle()
        thread = threading.Thread(target=work, name="holdfast-background")
        with self._lock:
            if not self._registered:
                _at_end(self.settle)
                self._registered = True
            self._threads.append(thread)
            thread.start()

    def settle(self) -> None:
        """Wait for what was begun; from within such work, for nothing."""
        with self._lock:
            waiting, self._threads = self._threads, []
        for thread in waiting:
            if thread is not threading.current_thread():
                thread.join()


def _at_end(settle: Callable[[], None]) -> None:
    """Have something done at the end of the process, while thread pools still take work.

    An interpreter first forbids that to the pools which captures are made with, and waits for threads only
    then. What is registered later is done earlier; `atexit` alone would come too late.
    """
    import concurrent.futures.thread  # noqa: F401 - registers what is to come later

    getattr(threading, "_register_atexit", atexit.register)(settle)
