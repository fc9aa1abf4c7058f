"""A parser of `/proc/PID/task/TID/syscall`: the system call that a thread is in.

Pure: it owns the numbers of system calls and the forms of their arguments, for the architectures that
sessions run on; it reads nothing. See proc_pid_syscall(5), poll(2), select(2), epoll_wait(2).
"""

from __future__ import annotations

import os
import struct
from enum import StrEnum

from holdfast.base.value_classes import dataclass
from holdfast.procfs import descriptor_info

MAX_WATCHED = 1024
"""Number of descriptors of one call that are considered."""


class Doing(StrEnum):
    """Kinds of activity of a thread, as far as the difference matters here."""

    RUNS = "runs"
    READS = "reads"
    POLLS = "polls"
    SELECTS = "selects"
    EPOLLS = "epolls"
    TRANSFERS = "transfers"
    SLEEPS = "sleeps"
    WAITS_FOR_CHILD = "waits for a child"
    CLOSED = "closed"
    """Sleeps in a call that may not be inspected."""
    STOPPED = "stopped"


_X86_64 = {
    Doing.READS: (0, 19, 17, 295, 327),  # read readv pread64 preadv preadv2
    Doing.POLLS: (7, 271),  # poll ppoll
    Doing.SELECTS: (23, 270),  # select pselect6
    Doing.EPOLLS: (232, 281, 441),  # epoll_wait epoll_pwait epoll_pwait2
    Doing.SLEEPS: (34, 35, 128, 130, 202, 219, 230, 449),
    # pause nanosleep rt_sigtimedwait rt_sigsuspend futex restart_syscall clock_nanosleep futex_waitv
    Doing.WAITS_FOR_CHILD: (61, 247),  # wait4 waitid
}
_AARCH64 = {
    Doing.READS: (63, 65, 67, 69, 286),
    Doing.POLLS: (73,),
    Doing.SELECTS: (72,),
    Doing.EPOLLS: (22, 441),
    Doing.SLEEPS: (98, 101, 115, 128, 133, 137, 449),
    Doing.WAITS_FOR_CHILD: (95, 260),
}
_RESTART = {"x86_64": 219, "aarch64": 128}.get(os.uname().machine)


@dataclass(frozen=True, slots=True)
class SystemCall:
    """The activity of a thread, and the arguments of the call it is in."""

    doing: Doing
    args: tuple[int, ...] = ()


def table(machine: str) -> dict[int, Doing]:
    """Return the system call numbers of an architecture that are meaningful here."""
    numbers = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(machine, {})
    return {number: doing for doing, of in numbers.items() for number in of}


_TABLE = table(os.uname().machine)


def parse(line: bytes, numbers: dict[int, Doing] = _TABLE) -> SystemCall:
    """Return the call in a line. A thread that is in no call, or in one that has finished, runs."""
    words = line.split()
    if len(words) < 9:  # "running", or "-1 SP PC" for one that was stopped outside of a call
        return SystemCall(Doing.RUNS)
    try:
        number, args = int(words[0]), tuple(int(word, 16) for word in words[1:7])
    except ValueError:
        return SystemCall(Doing.RUNS)
    return SystemCall(numbers.get(number, Doing.TRANSFERS), args)


def restarted(line: bytes) -> bool:
    """Check whether a call continues under another number after a stop or restore: its arguments are lost."""
    return _RESTART is not None and line.startswith(b"%d " % _RESTART)


def polled(data: bytes) -> list[int]:
    """Return the descriptors an array of `struct pollfd` asks to read from."""
    usable = len(data) - len(data) % 8
    return [fd for fd, events, _ in struct.iter_unpack("<ihh", data[:usable]) if fd >= 0 and events & 0x43]


def selected(data: bytes, count: int) -> list[int]:
    """Return the descriptors in an `fd_set`."""
    return [fd for fd in range(min(count, len(data) * 8)) if data[fd >> 3] >> (fd & 7) & 1]


def watched(fdinfo: bytes) -> list[int]:
    """Return the descriptors an epoll instance asks to read from, see proc_pid_fdinfo(5)."""
    return [one.fd for one in descriptor_info.parse(fdinfo).watched if one.events & 0x43]
