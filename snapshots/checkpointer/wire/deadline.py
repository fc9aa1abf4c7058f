"""The instant after which an operation must no longer keep a session frozen. Knows only the clock."""

from __future__ import annotations

import time


class Passed(OSError):
    """The operation took too long; `str()` names it and its time."""


class Deadline:
    """A deadline that counts from its creation."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left; never less than 0."""
        return max(0.0, self._end - time.monotonic())

    def check(self, what: str) -> None:
        """Raise Passed, which names `what`, if it has passed."""
        if time.monotonic() >= self._end:
            raise Passed(f"{what} took longer than {self._seconds:g} s, the limit for a frozen session")
