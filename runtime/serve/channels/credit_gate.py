"""The credit of one channel: a thread that has used it up waits, and only that one."""

from __future__ import annotations

import threading

from holdfast.runtime.serve.channels.channel_messages import MOST_CREDIT


class CreditGate:
    """So many bytes may pass; the last piece may exceed them."""

    def __init__(self, credit: int) -> None:
        self._changed = threading.Condition()
        self._credit = credit
        self._left = False

    def pass_on(self, size: int) -> bool:
        """Wait until there is credit, and use it; false if the channel was closed meanwhile."""
        with self._changed:
            while self._credit <= 0 and not self._left:
                self._changed.wait()
            self._credit -= size
            return not self._left

    def grant(self, size: int) -> None:
        """Give credit, up to the most that a channel may have."""
        with self._changed:
            self._credit = min(self._credit + size, MOST_CREDIT)
            self._changed.notify_all()

    def leave(self) -> None:
        """Let the thread pass; what it passes on is dropped."""
        with self._changed:
            self._left = True
            self._changed.notify_all()
