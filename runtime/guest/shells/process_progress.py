"""The progress of a shell that does not answer, from /proc; and interrupts, repeated until they arrive.

It is only asked after a wait has expired, so it can read all of /proc.

A signal is lost on a program that ended, and on a copy of the shell that is about to become the next one; the
shell itself forgets the program it just started when it is interrupted then. So each is signalled only when
it surely heeds it: a program once it has replaced its copy of the shell, the shell once it has kept the
terminal for several looks. A program that got the signal and continues has decided to, and is left alone.
"""

from __future__ import annotations

import os
import signal
from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Protocol

from holdfast.procfs import process_status
from holdfast.runtime.guest.layout import MARKS_LIBRARY
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.shells.shell_program import ShellKind, ShellProgram

_WORKING = ("R", "D")
SOON, AGAIN = 0.005, 0.05
"""Seconds from one look to the next: at first, and later."""
EARLY = 20
"""Number of looks that follow each other soon."""
LOOKS = 200
SETTLED = 4
"""Looks that must find the same program at work, with no signal pending: it has received the signal."""
QUIET = 3
"""Consecutive looks that must find only the shell before it is interrupted: it is not between programs."""
COPY_LOOKS = 10
"""Looks that must find a copy of the shell before it is taken for a program with a handler."""


def at_work(session: int) -> bool:
    """Return whether any process of the terminal session is runnable."""
    for pid in access.numbers("/proc"):
        found = access.stat(pid)
        if found and found.session == session and found.state in _WORKING:
            return True
    return False


class GroupProgress(StrEnum):
    """How a process group would take a signal."""

    ENDED = "ended"
    BEING_STARTED = "being started"
    RUNS = "runs"


def group_state(group: int, shell: int) -> GroupProgress:
    """Return whether all processes of a group have become programs, and are no longer copies of the shell.

    In a loop of short programs each lives for a millisecond: reading all of /proc would take longer, and
    find that every one of them has ended.
    """
    kept = access.read(f"/proc/{shell}/cmdline")
    found = GroupProgress.ENDED
    for pid in _candidates(group, shell):
        status = access.stat(pid)
        if status is None or status.ended:
            continue
        # A copy has a group of its own before it has the terminal.
        ours = status.group == group or group == shell == status.parent
        if ours and pid != shell and access.read(f"/proc/{pid}/cmdline") == kept and _catches_interrupt(pid):
            return GroupProgress.BEING_STARTED
        if status.group == group:
            found = GroupProgress.RUNS
    return found


def interrupt_waits(group: int) -> bool:
    """Return whether the leader of a process group was sent a SIGINT that it has not taken yet."""
    return _has_interrupt(group, b"SigPnd", b"ShdPnd")


def _candidates(group: int, shell: int) -> Iterable[int]:
    """Return processes that include those of a group that a shell has just started.

    As long as the first of them exists, the others are found by their parent: this shell, or another in it.
    """
    leader = access.stat(group)
    if leader is None or leader.ended:
        return access.numbers("/proc")
    found = [group]
    for parent in {shell} if group == shell else {shell, leader.parent}:
        children = access.whole(f"/proc/{parent}/task/{parent}/children")
        if children is None:  # a kernel without CONFIG_PROC_CHILDREN
            return access.numbers("/proc")
        found += map(int, children.split())
    return found


def _catches_interrupt(pid: int) -> bool:
    """Return whether a process has a handler for SIGINT: a copy has its shell's until it is set up."""
    return _has_interrupt(pid, b"SigCgt")


def _has_interrupt(pid: int, *sets: bytes) -> bool:
    """Return whether SIGINT is in one of the signal sets of a process, see proc_pid_status(5)."""
    data = access.read(f"/proc/{pid}/status") or b""
    return any(int(process_status.field(data, one) or b"0", 16) >> (signal.SIGINT - 1) & 1 for one in sets)


def replaced_by(pid: int, program: ShellProgram) -> str:
    """Return the program that replaced a shell and makes no marks, or "" if the shell still makes them.

    A bash that makes them has loaded our library; another shell is the program that was started.
    """
    who = access.owner(pid)
    if who is None:
        return ""
    with access.reading_as(*who):
        found = access.link(f"/proc/{pid}/exe")
        maps = access.whole(f"/proc/{pid}/maps")
    if found is None or maps is None or MARKS_LIBRARY.name.encode() in maps:
        return ""
    if program.kind is not ShellKind.BASH and found == os.path.realpath(program.path):
        return ""
    name = found.removesuffix(" (deleted)").rpartition("/")[2]
    return "a bash that was started without its settings" if name == "bash" else name


class Interruptible(Protocol):
    """The parts of a terminal that an interruption uses."""

    pid: int

    def foreground(self) -> int | None:
        """Return the foreground process group."""

    def signal_group(self, group: int, number: int, /) -> None:
        """Send a signal immediately to a process group."""


class Clock(Protocol):
    """The parts of an event loop that an interruption uses."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call back after this many seconds."""


class InterruptDelivery:
    """One interruption of one command. `runs` returns whether it is not over, in the same terminal."""

    def __init__(
        self,
        loop: Clock,
        terminal: Interruptible,
        runs: Callable[[], bool],
        begun: Callable[[], bool],
        state: Callable[[int, int], GroupProgress] = group_state,
        waits: Callable[[int], bool] = interrupt_waits,
    ) -> None:
        """Prepare the interruption.

        `begun` returns whether the command runs already; `state` describes a group, given it and the shell.
        `waits` returns whether a group was sent the signal and has not taken it yet.
        """
        self._loop = loop
        self._terminal = terminal
        self._runs = runs
        self._begun = begun
        self._state = state
        self._waits = waits
        self._hit: set[int] = set()
        self._hit_as_copies: set[int] = set()
        self._found: int | None = None
        self._same = 0
        self._looks = 0
        self._timer: TimerHandle | None = None

    def begin(self) -> None:
        """Interrupt as soon as possible."""
        self._look()

    def end(self) -> None:
        """Stop looking."""
        if self._timer:
            self._timer.cancel()

    def _look(self) -> None:
        if not self._runs():
            return
        if self._begun() and (now := self._terminal.foreground()) is not None:
            self._judge(now)
        self._looks += 1
        if self._looks < LOOKS and not self._settled():
            self._timer = self._loop.call_later(SOON if self._looks < EARLY else AGAIN, self._look)

    def _settled(self) -> bool:
        """Return whether a program has taken the signal and continues; on a busy machine it can be late."""
        found = self._found
        if found is None or found == self._terminal.pid or found not in self._hit or self._same < SETTLED:
            return False
        return not self._waits(found)

    def _judge(self, now: int) -> None:
        state = self._state(now, self._terminal.pid)
        if now != self._found or state is GroupProgress.ENDED:
            self._found, self._same = now, 0
        if state is GroupProgress.ENDED:
            return
        if (
            state is GroupProgress.RUNS and now in self._hit_as_copies
        ):  # it is a program now, which got no signal
            self._hit_as_copies.remove(now)
            self._hit.remove(now)
        self._same += 1
        wait = QUIET if now == self._terminal.pid else 1
        if state is GroupProgress.BEING_STARTED:
            wait = COPY_LOOKS
        if now not in self._hit and self._same >= wait:
            self._hit.add(now)
            if state is GroupProgress.BEING_STARTED and now != self._terminal.pid:
                self._hit_as_copies.add(now)
            self._same = 0
            self._terminal.signal_group(now, signal.SIGINT)
