"""Ends the pause of a session whose capture lasts long, before the outcome of the capture is known.

The processes of a session run again before their large heaps are copied (twins.py of the checkpointer). On a
busy machine the copying can take longer than a supervisor waits in its pause. Without a word it would take
the capture for one that failed, and record that. Knows only the pause, and nothing of snapshots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.errors import StoreError

AT_MOST = 5.0
"""Seconds; a supervisor waits for ten (`PATIENCE` in runtime/guest/captures/pause.py)."""


class LongPause:
    """The pause of one attempt, from now on."""

    def __init__(self, release: Callable[[], None]) -> None:
        """Begin; `release` tells the supervisor that it was captured, and that the outcome comes later."""
        self._release = release
        self._began = time.monotonic()
        self._timer: threading.Timer | None = None

    def captured(self) -> None:
        """Note that the session is frozen: it need not wait any longer than until it runs again."""
        self._timer = threading.Timer(max(0.0, self._began + AT_MOST - time.monotonic()), self._tell)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Stop watching: the outcome is known."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()

    def _tell(self) -> None:
        with suppress(StoreError):  # then the supervisor waits as long as it does by itself
            self._release()
