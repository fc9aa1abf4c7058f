"""Locks between processes, as files."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from holdfast.base import locks
from holdfast.errors import SessionBusy, StoreError


def test_a_held_lock_is_refused(tmp_path: Path) -> None:
    """The second learns it immediately, and gets it when the first is done."""
    with (
        locks.exclusive(tmp_path, "one", "try"),
        pytest.raises(SessionBusy, match="cannot try again"),
        locks.exclusive(tmp_path, "one", "try again"),
    ):
        pass
    with locks.exclusive(tmp_path, "one", "try"):
        pass


def test_a_patient_caller_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    """The second waits for the first, in another thread here."""
    order: list[str] = []
    held = threading.Event()

    def first() -> None:
        with locks.exclusive(tmp_path, "one", "try"):
            held.set()
            waiting.wait()
            order.append("first")

    def tried(*_: object) -> None:
        waiting.set()

    waiting = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    held.wait()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.base.polling.time.sleep", tried)
        with locks.exclusive(tmp_path, "one", "try", patience=60):
            order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_different_locks_do_not_meet(tmp_path: Path) -> None:
    """Two sessions are captured at the same time."""
    with locks.exclusive(tmp_path, "one", "try"), locks.exclusive(tmp_path, "two", "try"):
        pass


def test_a_discarded_lock_leaves_no_file(tmp_path: Path) -> None:
    """Its session has been removed."""
    with locks.exclusive(tmp_path, "one", "try"):
        locks.discard(tmp_path, "one")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_removed_meanwhile_locks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that opened it before the removal locks the file that is there now."""
    removed = False
    opening = os.open

    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        nonlocal removed
        file = opening(path, flags, mode)
        if not removed:
            removed = True
            path.unlink()
        return file

    monkeypatch.setattr(os, "open", opened)
    with (
        locks.exclusive(tmp_path, "one", "try"),
        pytest.raises(SessionBusy),
        locks.exclusive(tmp_path, "one", "try"),
    ):
        pass


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """One line, with the path."""
    with (
        pytest.raises(StoreError, match=r"cannot try: .*absent"),
        locks.exclusive(tmp_path / "absent", "x", "try"),
    ):
        pass


def test_a_whole_file_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    """The file stays; without a limit of time the second waits until the first is done."""
    path = tmp_path / "file"
    with (
        locks.whole_file(path) as first,
        pytest.raises(BlockingIOError),
        locks.whole_file(path, 0),
    ):
        pass
    assert path.exists()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first)

    got = threading.Event()

    def second() -> None:
        with locks.whole_file(path):
            got.set()

    with locks.whole_file(path, 1):
        thread = threading.Thread(target=second)
        thread.start()
        assert not got.wait(0.05)
    thread.join(60)
    assert got.is_set()


def test_a_file_system_without_locks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS can lack locks (ENOLCK); the file is closed again."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with (
        pytest.raises(StoreError, match=r"cannot try: .*one\.lock cannot be locked") as told,
        locks.exclusive(tmp_path, "one", "try"),
    ):
        raise AssertionError
    assert "HOLDFAST_HOME" in told.value.hint
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
