"""Work that continues while its caller does something else, one job at a time."""

from __future__ import annotations

import _thread
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading


class Background:
    """Threads that the process joins before it exits. A job handles its own errors."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()  # threading, which has more to load, comes with the first job
        self._threads: list[threading.Thread] = []
        self._registered = False

    def start(self, work: Callable[[], None]) -> None:
        """Start a job as soon as the previous one has finished."""
        import threading

        self.settle()
        thread = threading.Thread(target=work, name="holdfast-background")
        with self._lock:
            if not self._registered:
                _at_end(self.settle)
                self._registered = True
            self._threads.append(thread)
            thread.start()

    def settle(self) -> None:
        """Wait for the jobs that were started; return immediately when called from a job."""
        with self._lock:
            waiting, self._threads = self._threads, []
        if not waiting:
            return
        import threading

        for thread in waiting:
            if thread is not threading.current_thread():
                thread.join()


def _at_end(settle: Callable[[], None]) -> None:
    """Register a function to run at exit while thread pools still accept work.

    An interpreter that exits closes the pools that captures use before it joins threads. Functions registered
    later run earlier; `atexit` alone would run too late.
    """
    import atexit
    import concurrent.futures.thread  # noqa: F401 - registers what is to come later
    import threading

    getattr(threading, "_register_atexit", atexit.register)(settle)
