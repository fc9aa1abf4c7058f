"""Interrupts a command until the signal has found what runs.

Ctrl-C is for the process group that has the terminal at that instant. It finds nobody if that group just
ended, and only the shell if it is about to start the next one: a loop of short programs runs on. What got
the signal and goes on has decided so, and is left alone.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Protocol

AGAIN = 0.05
"""Seconds from one look to the next."""
LOOKS = 40


class Foreground(Protocol):
    """What it must know of a terminal."""

    pid: int

    def foreground(self) -> int | None:
        """Return the foreground process group."""

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""


class Clock(Protocol):
    """What it must know of an event loop."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call back after so many seconds."""


class Pursuit:
    """One interruption of one command. `runs` tells whether the command goes on, in the same terminal."""

    def __init__(self, loop: Clock, terminal: Foreground, runs: Callable[[], bool]) -> None:
        self._loop = loop
        self._terminal = terminal
        self._runs = runs
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
        if now != self._terminal.pid:
            if now == self._found:
                return
            self._found = now
            self._terminal.interrupt()
        self._looks -= 1
        if self._looks:
            self._timer = self._loop.call_later(AGAIN, self._look)
