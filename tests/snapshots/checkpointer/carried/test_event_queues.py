"""Tests of queues of inotify events of this process: the effects of a capture and a restore on them."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.carried import event_queues
from holdfast.snapshots.checkpointer.carried.event_queues import Holder, Watchers
from holdfast.snapshots.checkpointer.ground import pidfd_files

CREATE, OVERFLOW, IGNORED = 0x100, 0x4000, 0x8000
LIBC = ctypes.CDLL(None, use_errno=True)


class Queue:
    def __init__(self, folder: Path) -> None:
        self.fd = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch = LIBC.inotify_add_watch(self.fd, bytes(folder), CREATE)
        assert self.watch > 0

    def read(self) -> list[tuple[int, int]]:
        """Watch and mask of all that waits."""
        found = []
        while pidfd_files.unread(self.fd):
            data = os.read(self.fd, 1 << 16)
            while data:
                watch, mask, _, length = struct.unpack_from("iIII", data)
                found.append((watch, mask))
                data = data[16 + length :]
        return found


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path)
    yield made
    os.close(made.fd)


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watchers]:
    """The queues of this process, all file systems of which it has for itself."""
    mounted = Path("/proc/self/mountinfo").read_text().splitlines()
    monkeypatch.setattr(event_queues, "_PRIVATE", tuple(line.split()[4] for line in mounted))
    found = Watchers(os.getpid(), os.getpid())
    yield found
    found.close()


def test_a_queue_that_was_empty_is_empty_again(queue: Queue, ours: Watchers, tmp_path: Path) -> None:
    """Events since then are taken out, once: later ones belong to a program."""
    ours.note()
    (tmp_path / "meanwhile").touch()
    ours.forget()
    (tmp_path / "later").touch()
    ours.forget()
    assert queue.read() == [(queue.watch, CREATE)]


def test_a_queue_that_was_not_empty_is_left_alone(queue: Queue, ours: Watchers, tmp_path: Path) -> None:
    """Nothing that was there before is lost."""
    (tmp_path / "before").touch()
    ours.note()
    (tmp_path / "meanwhile").touch()
    ours.forget()
    assert queue.read() == [(queue.watch, CREATE)] * 2


def test_possible_work_of_others_is_left_there(
    queue: Queue, ours: Watchers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the host that is mounted, for one."""
    monkeypatch.setattr(event_queues, "_PRIVATE", ())
    ours.note()
    (tmp_path / "by another").touch()
    ours.forget()
    assert queue.read() == [(queue.watch, CREATE)]


def test_a_descriptor_that_is_another_by_now_is_not_noted(
    queue: Queue, ours: Watchers, tmp_path: Path
) -> None:
    """Its number can stand for a queue that is not empty."""
    other = Queue(tmp_path)
    os.dup2(other.fd, queue.fd)
    os.close(other.fd)
    ours.note()
    (list_, *_) = ours.handles
    assert f" {os.getpid()}:{queue.fd} ".encode() not in os.pread(list_, 1 << 16, 0)


def test_an_empty_queue_is_reported_by_the_number_its_process_has(queue: Queue, ours: Watchers) -> None:
    """The guard asks for that number."""
    ours.note()
    (list_, *_) = ours.handles
    assert f" {os.getpid()}:{queue.fd} ".encode() in os.pread(list_, 1 << 16, 0)


def test_a_queue_overflows_and_nothing_else_is_in_it(queue: Queue, tmp_path: Path) -> None:
    """And what is watched is watched on."""
    event_queues.overflow(queue.fd)
    (tmp_path / "after").touch()
    assert queue.read() == [(-1, OVERFLOW), (queue.watch, CREATE)]


def test_a_copy_begins_with_nothing_or_with_an_overflow(queue: Queue, tmp_path: Path) -> None:
    """Whatever a restore has done itself."""
    lossless = Queue(tmp_path)
    (tmp_path / "restored").touch()
    own = os.getpid()
    event_queues.begin(
        (own,), [Holder(own, queue.fd, lost=True, watches=1), Holder(own, lossless.fd, lost=False, watches=1)]
    )
    assert queue.read() == [(-1, OVERFLOW)]
    assert lossless.read() == []
    os.close(lossless.fd)


def test_a_watch_that_ended_is_reported(queue: Queue) -> None:
    """A restore deletes files that were deleted, after it has watched them."""
    LIBC.inotify_rm_watch(queue.fd, queue.watch)
    event_queues.begin((os.getpid(),), [Holder(os.getpid(), queue.fd, lost=False, watches=1)])
    assert queue.read() == [(queue.watch, IGNORED)]


def test_missing_subscribers_cannot_be_notified(queue: Queue) -> None:
    """A tree that would continue without knowing does not count."""
    with pytest.raises(OSError, match="cannot be notified"):
        event_queues.begin((os.getpid(),), [Holder(1 << 22, queue.fd, lost=True, watches=1)])


def test_malformed_queues_are_not_read(tmp_path: Path) -> None:
    """A number can stand for a different file by the time it is borrowed."""
    with (tmp_path / "file").open("w") as file, pytest.raises(OSError, match="not an inotify"):
        pidfd_files.queue(os.getpid(), file.fileno())


class Entry(SimpleNamespace):
    def HasField(self, name: str) -> bool:  # noqa: N802 - of protobuf
        return hasattr(self, name)


def inotify(number: int, flags: int) -> Entry:
    return Entry(id=number, ify=SimpleNamespace(flags=flags, wd=[1] * number))


def test_marks_come_off_the_images_and_are_reported() -> None:
    """CRIU must not see the flag: the kernel refuses it."""
    files = [inotify(1, 0o4000), inotify(2, 0o4000 | event_queues.UNREAD), Entry(id=3, reg=None)]

    assert event_queues.unmark(files) == {1: (False, 1), 2: (True, 2)}
    assert [entry.ify.flags for entry in files[:2]] == [0o4000, 0o4000]


def test_one_process_is_found_for_each_queue() -> None:
    """Also if several have it, or it by several numbers."""
    images: dict[str, list[Any]] = {
        "pstree": [SimpleNamespace(pid=5), SimpleNamespace(pid=6), SimpleNamespace(pid=7)],
        "ids-5": [SimpleNamespace(files_id=1)],
        "ids-6": [SimpleNamespace(files_id=2)],
        "ids-7": [],
        "fdinfo-1": [SimpleNamespace(id=1, fd=3), SimpleNamespace(id=9, fd=4), SimpleNamespace(id=1, fd=5)],
        "fdinfo-2": [SimpleNamespace(id=2, fd=3), SimpleNamespace(id=1, fd=4)],
    }
    source = SimpleNamespace(messages=images.__getitem__)

    assert list(event_queues.holders(source, {1: (True, 4), 2: (False, 5)})) == [
        Holder(5, 3, lost=True, watches=4),
        Holder(6, 3, lost=False, watches=5),
    ]
    assert list(event_queues.holders(source, {})) == []


def test_the_mark_is_that_of_the_guard() -> None:
    """Two languages, one number; and none of the flags that the kernel knows (asm-generic/fcntl.h)."""
    guard = (Path(event_queues.__file__).parents[1] / "guard" / "guard_unread.c").read_text()

    assert "UNREAD = 1 << 30;" in guard
    assert event_queues.UNREAD == 1 << 30
