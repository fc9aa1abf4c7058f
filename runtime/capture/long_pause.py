"""Ends the pause of a session whose capture lasts long, before the outcome of the capture is known.

The processes of a session run again before their large heaps are copied (twins.py of the checkpointer). On a
busy machine the copying can take longer than a supervisor waits in its pause. Without a word it would take
the capture for one that failed, and record that. Knows only the pause, and nothing of snapshots.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from holdfast.errors import StoreError

AT_MOST = 5.0
"""Seconds; a supervisor waits for ten (`PATIENCE` in runtime/guest/captures/pause.py)."""


class LongPause:
    """The pause of one attempt. Its thread begins before the session is frozen, to cost no time then."""

    def __init__(self, release: Callable[[], None]) -> None:
        """Begin; `release` tells the supervisor that it was captured, and that the outcome comes later."""
        self._release = release
        self._captured, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pause", daemon=True)
        self._thread.start()

    def captured(self) -> None:
        """Note that the session is frozen: its supervisor can continue as soon as it runs again."""
        self._captured.set()

    def end(self) -> None:
        """Stop watching: the outcome is known."""
        self._over.set()
        self._captured.set()
        self._thread.join()

    def _watch(self) -> None:
        if not self._over.wait(AT_MOST) and self._captured.wait() and not self._over.is_set():
            with suppress(StoreError):  # then the supervisor waits as long as ever
                self._release()
