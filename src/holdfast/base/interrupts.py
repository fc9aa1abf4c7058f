"""Deferred interrupts: sections that an interrupt must not cut in two.

An engine that was asked to make a container makes it whether or not the caller still listens, so such calls
run to completion and the interrupt is delivered afterwards.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@contextmanager
def held() -> Iterator[None]:
    """Deliver SIGINT, SIGTERM, SIGHUP and SIGALRM only after the block.

    Python runs handlers in the main thread only; in other threads this does nothing. Handlers are replaced
    rather than signals blocked: another thread of the process would receive a blocked one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before: dict[int, Any] = {}
    for number in HELD:
        handler = signal.getsignal(number)
        if callable(handler):  # the default action ends the process without running Python code
            before[number] = handler
            signal.signal(number, lambda got, frame: came.append((got, frame)))
    try:
        yield
    finally:
        for restored, handler in before.items():
            signal.signal(restored, handler)
        for got, frame in came[:1]:
            before[got](got, frame)
