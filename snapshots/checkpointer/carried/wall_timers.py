"""Makes timers set for a time of day expire at that time, however long a session was kept.

CRIU notes what was left of a timer, and sets it for that long after the restore, in whole seconds. For a
`timerfd` that was set for an absolute time of the real-time clock (timerfd_create(2)) that is too late by
all that has passed since. So a capture notes when those expire, and they are set again before anything of a
copy runs. Timers that expired in the meantime expire immediately, with as many expirations as the kernel
would have counted.

Timers of timer_create(2) are not among them: the kernel does not tell what those were set for.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.procfs import walk
from holdfast.procfs.descriptor_info import FdInfo
from holdfast.snapshots.checkpointer.ground import pidfd_files, tree
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

MOST = 1000
"""Timers of one tree; further ones are not noted."""
_REAL_TIME = (["0"], ["8"])  # CLOCK_REALTIME, CLOCK_REALTIME_ALARM
_ABSOLUTE, _CANCEL = 1, 2  # TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET
_SECOND, _LATEST = 10**9, 1 << 62
_SET_TICKS = 0x40085400  # TFD_IOC_SET_TICKS


class WallTimer(NamedTuple):
    """A timer by a process and its descriptor, in numbers of the session, and its setting.

    Times are in nanoseconds, since 1970; `ticks` were not read yet.
    """

    pid: int
    fd: int
    expires: int
    interval: int
    flags: int
    ticks: int


def note(pids: Iterable[int]) -> list[WallTimer]:
    """Return the timers of the processes of a tree, which do not run."""
    found: list[WallTimer] = []
    for pid in pids:
        for fd in walk.descriptors(pid):
            link = walk.link_of(pid, fd)
            is_timer = link is not None and link.kind == "anon" and link.name == "timerfd"
            if is_timer and len(found) < MOST and (timer := _noted(pid, fd)) is not None:
                found.append(timer)
    return found


def _noted(pid: int, fd: int) -> WallTimer | None:
    info = walk.fdinfo_of(pid, fd)
    if info is None or not _is_wall(info):
        return None
    with suppress(OSError):
        _go_on(pid, fd)
    began = time.time_ns()
    info = walk.fdinfo_of(pid, fd)
    timer = told(info, (began + time.time_ns()) // 2) if info is not None else None
    return timer._replace(pid=tree.inner_pid_of(pid), fd=fd) if timer is not None else None


def _go_on(pid: int, fd: int) -> None:
    """Make the kernel count unread expirations, so that it then reports the next time."""
    descriptor = pidfd_files.copy(pid, fd)
    try:
        ctypes.CDLL(None).timerfd_gettime(descriptor, ctypes.create_string_buffer(64))
    finally:
        os.close(descriptor)


def _is_wall(info: FdInfo) -> bool:
    clock, flags = (re.findall(r"\d+", info.value(name) or "") for name in ("clockid", "settime flags"))
    return clock in _REAL_TIME and len(flags) == 1 and bool(int(flags[0], 8) & _ABSOLUTE)


def told(info: FdInfo, now: int) -> WallTimer | None:
    """Return the timer in a descriptor's information; None if it is of a different kind. Pure."""
    ticks, flags, left, interval = (
        re.findall(r"\d+", info.value(name) or "")
        for name in ("ticks", "settime flags", "it_value", "it_interval")
    )
    if not _is_wall(info) or not ticks or len(left) != 2 or len(interval) != 2:
        return None
    rest, every = (int(seconds) * _SECOND + int(more) for seconds, more in (left, interval))
    how = int(flags[0], 8) & (_ABSOLUTE | _CANCEL)
    return WallTimer(0, 0, now + rest, every, how, int(ticks[0])) if rest else None


def checked(noted: Any) -> list[WallTimer]:
    """Check the notes of a capture, which can come from elsewhere.

    Raises:
        ImagesUnreadable: no capture notes that.
    """
    noted = [] if noted is None else noted
    if not isinstance(noted, list) or len(noted) > MOST or not all(map(_is_one, noted)):
        raise ImagesUnreadable("its timers are not valid")
    return [WallTimer(*one) for one in noted]


def _is_one(noted: Any) -> bool:
    if not isinstance(noted, list) or len(noted) != len(WallTimer._fields):
        return False
    return all(type(number) is int and 0 <= number < _LATEST for number in noted)


def begin(pids: Iterable[int], found: Sequence[WallTimer]) -> None:
    """Set the timers of a restored tree that does not run yet.

    Raises:
        OSError: one cannot be set.
    """
    if not found:
        return
    ours = tree.by_inner_pid(pids)
    for timer in found:
        if timer.pid not in ours:
            raise OSError(f"a timer of process {timer.pid} cannot be set")
        descriptor = pidfd_files.copy(ours[timer.pid], timer.fd)
        try:
            put(descriptor, timer)
        finally:
            os.close(descriptor)


def put(descriptor: int, timer: WallTimer) -> None:
    """Set a timer. Raises OSError."""
    value = struct.pack("@4l", *divmod(timer.interval, _SECOND), *divmod(timer.expires, _SECOND))
    flags = timer.flags & (_ABSOLUTE | _CANCEL)
    if ctypes.CDLL(None, use_errno=True).timerfd_settime(descriptor, flags, value, None) < 0:
        raise OSError(ctypes.get_errno(), "timerfd_settime")
    if timer.ticks:
        more = int(timer.expires <= time.time_ns())
        fcntl.ioctl(descriptor, _SET_TICKS, struct.pack("=Q", min(timer.ticks + more, _LATEST)))
