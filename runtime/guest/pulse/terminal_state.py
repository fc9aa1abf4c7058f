"""Rules for the activity of a terminal's foreground, and whether it waits for its user.

Pure: a sample of the threads, the terminal's modes and the text at the cursor come in, a verdict comes out.
It owns the rules, the numbers of system calls and the forms of their arguments, for the architectures that
sessions run on; it reads nothing and knows no clock. See proc_pid_syscall(5), poll(2), select(2),
epoll_wait(2).

A program waits when one of its threads is blocked in a call that reads from the terminal. That alone is not
enough where the same program also serves sockets or computes: a development server reads keys all its life.
Such a program waits only if the terminal indicates it as well: a password is being typed, or the cursor
follows a prompt.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from holdfast.base.value_classes import dataclass
from holdfast.procfs import descriptor_info
from holdfast.runtime.guest.pulse.input_kind import InputModes, Prompt, kind
from holdfast.runtime.guest.pulse.state import Detail, Name

MAX_WATCHED = 1024
"""Number of descriptors of one call that are considered."""


class ThreadActivity(StrEnum):
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
    """Sleeps in a call that cannot be inspected."""
    STOPPED = "stopped"


_X86_64 = {
    ThreadActivity.READS: (0, 19, 17, 295, 327),  # read readv pread64 preadv preadv2
    ThreadActivity.POLLS: (7, 271),  # poll ppoll
    ThreadActivity.SELECTS: (23, 270),  # select pselect6
    ThreadActivity.EPOLLS: (232, 281, 441),  # epoll_wait epoll_pwait epoll_pwait2
    ThreadActivity.SLEEPS: (34, 35, 128, 130, 202, 219, 230, 449),
    # pause nanosleep rt_sigtimedwait rt_sigsuspend futex restart_syscall clock_nanosleep futex_waitv
    ThreadActivity.WAITS_FOR_CHILD: (61, 247),  # wait4 waitid
}
_AARCH64 = {
    ThreadActivity.READS: (63, 65, 67, 69, 286),
    ThreadActivity.POLLS: (73,),
    ThreadActivity.SELECTS: (72,),
    ThreadActivity.EPOLLS: (22, 441),
    ThreadActivity.SLEEPS: (98, 101, 115, 128, 133, 137, 449),
    ThreadActivity.WAITS_FOR_CHILD: (95, 260),
}
_RESTART = {"x86_64": 219, "aarch64": 128}.get(os.uname().machine)


@dataclass(frozen=True, slots=True)
class SystemCall:
    """The activity of a thread, and the arguments of the call it is in."""

    doing: ThreadActivity
    args: tuple[int, ...] = ()


def table(machine: str) -> dict[int, ThreadActivity]:
    """Return the system call numbers of an architecture that are meaningful here."""
    numbers = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(machine, {})
    return {number: doing for doing, of in numbers.items() for number in of}


_TABLE = table(os.uname().machine)


def parse(line: bytes, numbers: dict[int, ThreadActivity] = _TABLE) -> SystemCall:
    """Return the call in a line. A thread that is in no call, or in one that has finished, runs."""
    words = line.split()
    if len(words) < 9:  # "running", or "-1 SP PC" for one that was stopped outside of a call
        return SystemCall(ThreadActivity.RUNS)
    try:
        number, args = int(words[0]), tuple(int(word, 16) for word in words[1:7])
    except ValueError:
        return SystemCall(ThreadActivity.RUNS)
    return SystemCall(numbers.get(number, ThreadActivity.TRANSFERS), args)


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


class DescriptorKind(StrEnum):
    """The kind of a descriptor, as far as it matters for waiting.

    Plumbing is internal to a program: events, timers, signals, socket pairs.
    """

    TERMINAL = "terminal"
    MASTER = "master"
    SOCKET = "socket"
    PLUMBING = "plumbing"
    PIPE = "pipe"
    OTHER = "other"


def thing(target: str, names: Collection[str]) -> DescriptorKind:
    """Return the target of a link in `/proc/PID/fd`. `names` are the terminal's names.

    For a socket the link alone does not show whether it connects parts of the program.
    """
    if target in names:
        return DescriptorKind.TERMINAL
    if target in ("/dev/ptmx", "/dev/pts/ptmx"):
        return DescriptorKind.MASTER
    kinds = {
        "socket": DescriptorKind.SOCKET,
        "pipe": DescriptorKind.PIPE,
        "anon_inode": DescriptorKind.PLUMBING,
    }
    return kinds.get(target.partition(":")[0], DescriptorKind.OTHER)


@dataclass(frozen=True, slots=True)
class ForegroundThread:
    """One thread of the foreground, and the kinds of the descriptors that it reads or waits for."""

    pid: int
    tid: int
    call: SystemCall
    things: frozenset[DescriptorKind] = frozenset()

    @property
    def on_terminal(self) -> bool:
        """True if it is blocked until the terminal has input (or something else happens)."""
        return DescriptorKind.TERMINAL in self.things


@dataclass(frozen=True, slots=True)
class ForegroundSample:
    """One sample of the foreground.

    `names` are the programs of its processes, `parents` their parent processes; `hot` are the ones that
    recently used a good part of a processor, `busy` the ones among them that run right now.
    """

    threads: Sequence[ForegroundThread]
    modes: InputModes
    prompt: Prompt
    names: Mapping[int, str]
    parents: Mapping[int, int]
    hot: frozenset[int] = frozenset()
    busy: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class WaitingVerdict:
    """The conclusion from one sample; `pid` and `tid` belong to the thread that explains it."""

    state: Name
    detail: Detail | None = None
    pid: int | None = None
    tid: int | None = None


def decide(view: ForegroundSample) -> WaitingVerdict:
    """Return the verdict on a sample of the foreground."""
    waiting = [thread for thread in view.threads if thread.on_terminal]
    # A plain read is surer than a set of many; of several readers, the last started is the one people see.
    waiting.sort(key=lambda thread: (thread.call.doing is ThreadActivity.READS, thread.pid))
    for thread in reversed(waiting):
        if _waits(thread, view):
            return WaitingVerdict(
                "waiting",
                kind(view.modes, view.prompt, view.names.get(thread.pid, "")),
                thread.pid,
                thread.tid,
            )
    if not waiting and view.modes.hidden:
        closed = [thread for thread in view.threads if thread.call.doing is ThreadActivity.CLOSED]
        others = [
            thread
            for thread in view.threads
            if thread.call.doing not in (ThreadActivity.CLOSED, ThreadActivity.WAITS_FOR_CHILD)
        ]
        if closed and not others:
            return WaitingVerdict("waiting", "password", closed[-1].pid, closed[-1].tid)
    return running(view)


def running(view: ForegroundSample) -> WaitingVerdict:
    """Return how it continues on its own, or that it is stopped."""
    at_work = [thread for thread in view.threads if thread.call.doing is not ThreadActivity.WAITS_FOR_CHILD]
    if at_work and all(thread.call.doing is ThreadActivity.STOPPED for thread in at_work):
        return WaitingVerdict("stopped", None, at_work[-1].pid)
    ranks: tuple[tuple[Detail, list[ForegroundThread]], ...] = (
        ("cpu", [each for each in at_work if each.call.doing is ThreadActivity.RUNS or each.pid in view.hot]),
        ("io", [each for each in at_work if _transfers(each) and not _takes_over(each)]),
        ("sleep", [each for each in at_work if each.call.doing in (ThreadActivity.SLEEPS, *_SETS)]),
        ("io", list(view.threads)),
    )
    for detail, threads in ranks:
        if threads:
            last = max(threads, key=lambda each: each.pid)
            return WaitingVerdict("running", detail, last.pid, last.tid)
    return WaitingVerdict("running", "cpu")


_SETS = (ThreadActivity.POLLS, ThreadActivity.SELECTS, ThreadActivity.EPOLLS)


def _waits(thread: ForegroundThread, view: ForegroundSample) -> bool:
    """Check whether a thread that is blocked on the terminal means that the program waits for its user."""
    served = any(
        other.things & {DescriptorKind.SOCKET, DescriptorKind.MASTER}
        for other in view.threads
        if other.pid == thread.pid and other.call.doing in _SETS
    )
    works = any(_descends(pid, thread.pid, view.parents) for pid in view.busy)
    if not served and not works:
        return True
    return view.modes.hidden or view.prompt.asks or (not served and view.prompt.alternate)


def _descends(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    for _ in range(len(parents) + 1):
        if pid == ancestor:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False


def _takes_over(thread: ForegroundThread) -> bool:
    """Check whether it waits for a process in its pipeline, which then explains the wait."""
    return thread.call.doing is ThreadActivity.READS and thread.things == {DescriptorKind.PIPE}


def _transfers(thread: ForegroundThread) -> bool:
    doing = thread.call.doing
    if doing in (ThreadActivity.READS, ThreadActivity.TRANSFERS):
        return True
    return doing in _SETS and bool(thread.things - {DescriptorKind.PLUMBING, DescriptorKind.TERMINAL})
