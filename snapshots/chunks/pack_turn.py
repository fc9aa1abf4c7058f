"""The turn to change the packs: one process has it at a time, and a long job can let others go first.

    chunks/lock     held by the process whose turn it is
    chunks/wanted   shared by all that wait for it

A background job asks now and then whether another process waits, and leaves its turn in between. Packs
written during it are claimed, so that they are not removed. Does not know the content of packs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.base import polling

_LOOK_AGAIN = 0.01
BACK_SECONDS = 600.0
"""How long a job that left its turn waits to get it back; checking 100 GiB of packs takes about this long."""


class PackTurn:
    """One caller's turn. The kernel ends it with the process."""

    def __init__(self, folder: Path) -> None:
        """Prepare to wait for the turn in a folder.

        Raises:
            OSError: its files cannot be opened.
        """
        self._lock = _opened(folder / "lock")
        self._wanted = _opened(folder / "wanted")

    def take(self, patience: float) -> None:
        """Wait for the turn; without patience, try once and hurry no other process.

        Raises:
            BlockingIOError: another process had it for all of `patience` seconds.
        """
        if patience > 0:
            fcntl.flock(self._wanted, fcntl.LOCK_SH)
        try:
            _lock(self._lock, patience)
        finally:
            fcntl.flock(self._wanted, fcntl.LOCK_UN)

    @property
    def asked(self) -> bool:
        """True if another process waits for its turn."""
        try:
            fcntl.flock(self._wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._wanted, fcntl.LOCK_UN)
        return False

    @contextmanager
    def left(self) -> Iterator[None]:
        """Let others have their turn during the block, and then until none of them waits any more.

        Raises:
            BlockingIOError: the turn did not come back in time.
        """
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        try:
            yield
        finally:
            _lock(self._wanted, BACK_SECONDS)
            fcntl.flock(self._wanted, fcntl.LOCK_UN)
            _lock(self._lock, BACK_SECONDS)

    def close(self) -> None:
        """End the turn."""
        os.close(self._wanted)
        os.close(self._lock)


def claim(path: Path) -> int:
    """Keep a pack from being removed until the returned descriptor is closed.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def claimed(path: Path) -> bool:
    """Check whether a live process relies on a file, or is writing it."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock(descriptor: int, seconds: float) -> None:
    polling.while_raising(
        BlockingIOError, lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), seconds, _LOOK_AGAIN
    )
