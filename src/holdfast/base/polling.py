"""Waiting by polling, for events that have no notification."""

from __future__ import annotations

import time
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def until(look: Callable[[], T], seconds: float, pause: float = 0.01) -> T:
    """Call `look` until it returns a true value, for at most `seconds`; return its last result."""
    deadline = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(pause)
    return found


def while_raising(error: type[Exception], attempt: Callable[[], T], seconds: float, pause: float = 0.01) -> T:
    """Call `attempt` until it does not raise `error` and return its result.

    Raises:
        error: the last one, after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except error:
            if time.monotonic() >= deadline:
                raise
        time.sleep(pause)
