"""Interrupts a command until the signal has found what runs.

Ctrl-C is for the process group that has the terminal at that instant. It finds nobody if that group just
ended, and only the shell if it is about to start the next one: a loop of short programs runs on. What got
the signal and goes on has decided so, and is left alone.
"""

from __future__ import annotations

import signal
from asyncio import TimerHandle
from collections.abc import Callable
from typing import Protocol

from holdfast.runtime.guest.progress import alive

AGAIN = 0.05
"""Seconds from one look to the next."""
LOOKS = 200
SETTLED = 4
"""So many looks that find the same program at work: it has the signal. Ctrl-C may take a while to be read."""


class Foreground(Protocol):
    """What it must know of a terminal."""

    pid: int

    def foreground(self) -> int | None:
        """Return the foreground process group."""

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""

    def signal_foreground(self, number: int, /) -> None:
        """Send a signal at once to the foreground process group, never to the shell."""


class Clock(Protocol):
    """What it must know of an event loop."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call back after so many seconds."""


class Pursuit:
    """One interruption of one command. `runs` tells whether the command goes on, in the same terminal."""

    def __init__(
        self,
        loop: Clock,
        terminal: Foreground,
        runs: Callable[[], bool],
        alive: Callable[[int], bool] = alive,
    ) -> None:
        self._loop = loop
        self._terminal = terminal
        self._runs = runs
        self._alive = alive
        self._settled = 0
        self._found: int | None = None
        self._looks = LOOKS
        self._timer: TimerHandle | None = None

    def begin(self) -> None:
        """Interrupt."""
        self._found = self._terminal.foreground()
        self._terminal.interrupt()
        self._timer = self._loop.call_later(AGAIN, self._look)

    def end(self) -> None:
        """Look no more."""
        if self._timer:
            self._timer.cancel()

    def _look(self) -> None:
        if not self._runs():
            return
        now = self._terminal.foreground()
        if now is None or now == self._terminal.pid:
            self._settled = 0
        elif now != self._found:
            self._settled, self._found = 0, now
            self._terminal.signal_foreground(signal.SIGINT)
        elif self._alive(now):
            self._settled += 1
        self._looks -= 1
        if self._looks and self._settled < SETTLED:
            self._timer = self._loop.call_later(AGAIN, self._look)
