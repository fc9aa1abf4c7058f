"""A signal that comes too late to interrupt a system call."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_elsewhere() -> Iterator[None]:
    """Let a signal arrive in another thread: as one just before a system call, it does not interrupt that."""

    def heard(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    def elsewhere() -> None:
        time.sleep(0.3)  # for the call to begin
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, heard)
    try:
        threading.Thread(target=elsewhere, daemon=True).start()
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
