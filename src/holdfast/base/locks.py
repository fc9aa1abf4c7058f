"""Locks between processes and threads, held on files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.base import polling
from holdfast.errors import SessionBusy, StoreError

LOCK_SECONDS = 60.0
"""How long to wait for the holder of a session's lock: longer than a capture of gigabytes takes."""
NO_LOCKS_HINT = "keep the home on a file system that has locks: HOLDFAST_HOME chooses another folder"
_LOOK_AGAIN = 0.01


@contextmanager
def exclusive(folder: Path, name: str, what: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock `name`; the kernel releases it when the holder dies.

    Raises:
        SessionBusy: another holder kept it for `patience` seconds; "cannot <what>: …".
    """
    with _held(folder, name, what, fcntl.LOCK_EX, patience):
        yield


@contextmanager
def shared(folder: Path, name: str, what: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock `name` together with others that share it.

    Raises:
        SessionBusy: as for `exclusive`.
    """
    with _held(folder, name, what, fcntl.LOCK_SH, patience):
        yield


@contextmanager
def _held(folder: Path, name: str, what: str, kind: int, patience: float) -> Iterator[None]:
    path = folder / f"{name}.lock"
    file = polling.while_raising(SessionBusy, lambda: _lock(path, what, kind), patience, _LOOK_AGAIN)
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def whole_file(path: Path, seconds: float | None = None) -> Iterator[int]:
    """Hold the lock on a file that is never removed, and yield its descriptor; make it if it is missing.

    Raises:
        BlockingIOError: another holder kept it for `seconds`; None waits for as long as it takes.
        OSError: the file cannot be opened.
        StoreError: its file system has no locks.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            _wait(file, seconds)
        except BlockingIOError:
            raise
        except OSError as error:
            raise StoreError(f"cannot lock {path}: {error.strerror or error}", hint=NO_LOCKS_HINT) from error
        yield file
    finally:
        os.close(file)


def _wait(file: int, seconds: float | None) -> None:
    if seconds is None:
        fcntl.flock(file, fcntl.LOCK_EX)
    else:
        polling.while_raising(
            BlockingIOError, lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB), seconds, _LOOK_AGAIN
        )


def discard(folder: Path, name: str) -> None:
    """Remove the file of the lock `name`, which the caller holds and whose subject no longer exists."""
    (folder / f"{name}.lock").unlink(missing_ok=True)


def _lock(path: Path, what: str, kind: int) -> int:
    """Lock the file and return its descriptor; open it again if the last holder removed it in the
    meantime."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot {what}: {path} cannot be opened ({error.strerror or error})") from error
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(file)
            raise SessionBusy(
                f"cannot {what}: another operation on it is in progress", hint="try again when it has ended"
            ) from error
        except OSError as error:
            os.close(file)
            raise StoreError(
                f"cannot {what}: {path} cannot be locked ({error.strerror or error})",
                hint=NO_LOCKS_HINT,
            ) from error
        if os.fstat(file).st_nlink:
            return file
        os.close(file)
