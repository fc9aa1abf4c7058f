"""Turns at a container: one capture of it, or one restore into it, at a time.

A restore that loads memory only when it is touched keeps its turn until all of it is loaded. Others ask for
that, through a FIFO, and then wait. Lock and FIFO are files of the home, so that a checkpointer of a
different version also finds them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.snapshots.checkpointer.ground.folders import STATE, locked

# Every capture and restore has a limit of its own; loading 8 GiB from a slow disk takes two minutes.
LIMIT = 600.0  # seconds
POLL = 0.005
PLACE = STATE / "checkpointer"


class ContainerBusy(OSError):
    """A capture of the container, or a restore into it, is in progress."""


@contextmanager
def turn(container: str, place: Path = PLACE) -> Iterator[None]:
    """Held during a capture of a container, or a restore into it.

    Memory that is restored on demand cannot be captured before all of it has arrived.

    Raises:
        ContainerBusy: an earlier one did not end within LIMIT.
    """
    lock = place / f"{container}.lock"
    deadline = time.monotonic() + LIMIT
    while (descriptor := _locked(lock)) is None:
        if time.monotonic() > deadline:
            raise ContainerBusy("another capture or restore of this session is still at work")
        _ask_to_load(container, place)
        time.sleep(POLL)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held: who waits for it notices
        os.close(descriptor)


@contextmanager
def asked_to_load(container: str, place: Path = PLACE) -> Iterator[int]:
    """Yield a descriptor that can be read once a capture needs all memory of the container."""
    path = place / f"{container}.load"
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    try:
        # Also for writing: without a writer it would always be at its end.
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    finally:
        path.unlink(missing_ok=True)


def _ask_to_load(container: str, place: Path) -> None:
    with suppress(OSError):  # nothing is loaded on touch, or its reader has ended, or was asked often
        descriptor = os.open(
            place / f"{container}.load", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        )
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Return a descriptor of the file, locked; None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with suppress(FileNotFoundError):
        if locked(descriptor) and os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    os.close(descriptor)
    return None
