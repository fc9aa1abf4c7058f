"""Plays a recording in this process's terminal, at its own pace or faster."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator

from holdfast.errors import InvalidArgument
from holdfast.runtime.attachment.own_terminal import ENCODING, write
from holdfast.runtime.history.recording.recording import Recording
from holdfast.runtime.terminal.safe_output import BELOW, LEAVE, SafeOutput

_QUIT = (b"q", b"\x03", b"\x1d")


class Player:
    """Shows a recording once. Space pauses, q ends."""

    def __init__(
        self,
        recording: Recording,
        *,
        speed: float = 1.0,
        max_idle: float | None = None,
        raw: bool = False,
        stdout: int | None = None,
    ) -> None:
        """Prepare. Without a terminal everything is written immediately.

        Sequences that make a terminal reply, or change it permanently, are left out unless `raw`.
        """
        if not 0.01 <= speed <= 10_000:
            raise InvalidArgument("cannot play at this speed: it must be from 0.01 to 10000")
        self._recording = recording
        self._speed = speed
        self._max_idle = max_idle
        self._raw = raw
        self._out = sys.stdout.fileno() if stdout is None else stdout
        self._in = sys.stdin.fileno() if sys.stdin.isatty() and os.isatty(self._out) else None

    def run(self) -> bool:
        """Play; return False if it was ended early."""
        safe = SafeOutput()
        with self._keys():
            try:
                return self._play(safe)
            finally:
                if os.isatty(self._out) and not self._raw:
                    write(self._out, safe.end())

    def _play(self, safe: SafeOutput) -> bool:
        clock = time.monotonic()
        last = self._recording.begun
        for event in self._recording.events():
            step = max(0.0, event.at - last) / self._speed
            last = max(last, event.at)
            clock += step if self._max_idle is None else min(step, self._max_idle)
            if os.isatty(self._out) and (pause := self._wait(clock)) is not None:
                if pause < 0:
                    return False
                clock += pause
            if event.code == "o":
                text = event.data if self._raw else safe.feed_text(event.data)
                write(self._out, text.encode(ENCODING, "replace"))
        return True

    def _wait(self, until: float) -> float | None:
        """Wait, reading keys; return the length of a pause, or -1 for the end."""
        paused = 0.0
        while (left := until + paused - time.monotonic()) > 0:
            if self._in is None:
                time.sleep(left)
                return None
            ready, _, _ = select.select([self._in], [], [], left)
            if not ready:
                break
            key = os.read(self._in, 1)
            if key in _QUIT or not key:
                return -1.0
            if key == b" ":
                began = time.monotonic()
                if os.read(self._in, 1) in (*_QUIT, b""):
                    return -1.0
                paused += time.monotonic() - began
        return paused

    @contextlib.contextmanager
    def _keys(self) -> Iterator[None]:
        if self._in is None:
            yield
            return
        before = termios.tcgetattr(self._in)
        tty.setcbreak(self._in, termios.TCSADRAIN)
        try:
            yield
        finally:
            termios.tcsetattr(self._in, termios.TCSADRAIN, before)
            write(self._out, LEAVE + BELOW)
