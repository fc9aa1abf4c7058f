"""Interrupts a command, repeating the signal until it reaches what runs.

A signal is lost on a program that ended, and on a copy of the shell that is about to become the next one; the
shell itself forgets the program it just started when it is interrupted then. So each is signalled only when
it surely heeds it: a program once it has replaced its copy of the shell, the shell once it has kept the
terminal for several looks. A program that got the signal and continues has decided to, and is left alone.
"""

from __future__ import annotations

import signal
from asyncio import TimerHandle
from collections.abc import Callable
from typing import Protocol

from holdfast.runtime.guest.shells.process_progress import Group, group_state, interrupt_waits

SOON, AGAIN = 0.005, 0.05
"""Seconds from one look to the next: at first, and later."""
EARLY = 20
"""Number of looks that follow each other soon."""
LOOKS = 200
SETTLED = 4
"""Looks that must find the same program at work, with no signal pending: it has received the signal."""
QUIET = 3
"""Consecutive looks that must find only the shell before it is interrupted: it is not between programs."""
PATIENCE = 10
"""Looks that must find a copy of the shell before it is taken for a program with a handler."""


class Interruptible(Protocol):
    """The parts of a terminal that an interruption uses."""

    pid: int

    def foreground(self) -> int | None:
        """Return the foreground process group."""

    def signal_group(self, group: int, number: int, /) -> None:
        """Send a signal at once to a process group."""


class Clock(Protocol):
    """The parts of an event loop that an interruption uses."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call back after this many seconds."""


class Pursuit:
    """One interruption of one command. `runs` returns whether it is not over, in the same terminal."""

    def __init__(
        self,
        loop: Clock,
        terminal: Interruptible,
        runs: Callable[[], bool],
        begun: Callable[[], bool],
        state: Callable[[int, int], Group] = group_state,
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
        """Return whether a program has taken the signal and continues; on a busy machine it may not
        have run.
        """
        found = self._found
        if found is None or found == self._terminal.pid or found not in self._hit or self._same < SETTLED:
            return False
        return not self._waits(found)

    def _judge(self, now: int) -> None:
        state = self._state(now, self._terminal.pid)
        if now != self._found or state is Group.ENDED:
            self._found, self._same = now, 0
        if state is Group.ENDED:
            return
        if state is Group.RUNS and now in self._hit_as_copies:  # it is a program now, which got no signal
            self._hit_as_copies.remove(now)
            self._hit.remove(now)
        self._same += 1
        wait = QUIET if now == self._terminal.pid else 1
        if state is Group.BEING_STARTED:
            wait = PATIENCE
        if now not in self._hit and self._same >= wait:
            self._hit.add(now)
            if state is Group.BEING_STARTED and now != self._terminal.pid:
                self._hit_as_copies.add(now)
            self._same = 0
            self._terminal.signal_group(now, signal.SIGINT)
