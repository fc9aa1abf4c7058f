"""Timers for a time of day: which they are, and how they are set again."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.procfs import descriptor_info
from holdfast.snapshots.checkpointer.carried import wall_timers
from holdfast.snapshots.checkpointer.carried.wall_timers import WallTimer
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

SECOND = 10**9
HOURS = 3600 * SECOND


def info(left: str, *, clock: int = 0, flags: str = "01") -> Any:
    text = f"pos:\t0\nflags:\t02\nmnt_id:\t9\nino:\t26\nclockid: {clock}\nticks: 3\nsettime flags: {flags}\n"
    return descriptor_info.parse(f"{text}it_value: ({left})\nit_interval: (2, 1)\n".encode())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (info("30, 250000000"), WallTimer(0, 0, 1030 * SECOND + SECOND // 4, 2 * SECOND + 1, 1, 3)),
        (info("30, 0", flags="03"), WallTimer(0, 0, 1030 * SECOND, 2 * SECOND + 1, 3, 3)),
        (info("0, 0"), None),  # it was not set
        (info("30, 0", clock=1), None),
        (info("30, 0", flags="00"), None),  # set for a while
        (descriptor_info.parse(b"pos:\t0\nflags:\t02\nmnt_id:\t9\n"), None),
    ],
)
def test_only_timers_for_a_time_of_day_are_noted(given: Any, expected: WallTimer | None) -> None:
    """All others have as much left in a copy as they had."""
    assert wall_timers.told(given, 1000 * SECOND) == expected


@pytest.fixture
def timer() -> Iterator[int]:
    made = ctypes.CDLL(None).timerfd_create(time.CLOCK_REALTIME, os.O_NONBLOCK)
    yield made
    os.close(made)


def test_a_timer_of_a_process_is_found_and_set(timer: int) -> None:
    """By the number of its descriptor, for the time for which it was set."""
    expires = time.time_ns() + HOURS
    wall_timers.put(timer, WallTimer(0, 0, expires, 0, 1, 0))
    (found,) = [one for one in wall_timers.note([os.getpid()]) if one.fd == timer]
    assert abs(found.expires - expires) < 60 * SECOND
    wall_timers.put(timer, WallTimer(0, 0, expires - 3 * HOURS, HOURS, 1, 0))  # expired, and was not read
    (late,) = [one for one in wall_timers.note([os.getpid()]) if one.fd == timer]
    assert (late.ticks, late.interval) == (3, HOURS)
    assert abs(late.expires - expires) < 60 * SECOND
    wall_timers.begin([os.getpid()], [found._replace(expires=expires + HOURS)])
    told = Path(f"/proc/self/fdinfo/{timer}").read_text()
    left = re.search(r"it_value: \((\d+),", told)
    assert left is not None
    assert 7000 < int(left[1]) <= 7200
    with pytest.raises(OSError, match="cannot be set"):
        wall_timers.begin([], [found])


def test_expired_entries_are_counted(timer: int) -> None:
    """From the time for which it was set, with the earlier unread ones."""
    wall_timers.put(timer, WallTimer(0, 0, time.time_ns() - 2 * HOURS - SECOND, HOURS, 1, 7))
    assert int.from_bytes(os.read(timer, 8), "little") == 7 + 3
    wall_timers.put(timer, WallTimer(0, 0, time.time_ns() + HOURS, 0, 1, 0))
    with pytest.raises(BlockingIOError):
        os.read(timer, 8)


@pytest.mark.parametrize(
    "noted",
    [7, "7", {}, [7], [[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 1, -1]], [[1, 2, True, 4, 1, 0]], [[0] * 6] * 1001],
)
def test_timers_that_no_capture_notes_are_refused(noted: Any) -> None:
    assert wall_timers.checked(None) == []
    assert wall_timers.checked([[1, 2, 3, 4, 1, 0]]) == [WallTimer(1, 2, 3, 4, 1, 0)]
    with pytest.raises(ImagesUnreadable):
        wall_timers.checked(noted)
