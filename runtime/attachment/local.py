"""The terminal of this process: raw for a while, its size, its signals."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import sys
import termios
import tty
from collections.abc import Iterator
from types import FrameType

from holdfast.runtime.terminal.resets import BELOW, LEAVE

# What the locale says of the terminal. PEP 538 makes it UTF-8 where nothing is said.
ENCODING = getattr(sys.stdout, "encoding", None) or "utf-8"


@contextlib.contextmanager
def raw(stdin: int, stdout: int) -> Iterator[None]:
    """The terminal without any processing of its own, put back at the end."""
    before = termios.tcgetattr(stdin)
    tty.setraw(stdin, termios.TCSADRAIN)
    try:
        yield
    finally:
        # What programs of the session switched on, a shell here does not expect.
        with contextlib.suppress(OSError):
            write(stdout, LEAVE + BELOW)
        with contextlib.suppress(termios.error):
            # A mouse that was moved until now has sent what a shell here would take for typed.
            termios.tcsetattr(stdin, termios.TCSAFLUSH, before)


@contextlib.contextmanager
def signals() -> Iterator[int]:
    """A descriptor that becomes readable with the number of each signal that came."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    numbers = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)

    def ignore(_number: int, _frame: FrameType | None) -> None:
        """The number comes through the pipe."""

    before = {number: signal.signal(number, ignore) for number in numbers}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def size(terminal: int) -> tuple[int, int]:
    """Rows and columns; 24 x 80 if the terminal does not know."""
    try:
        packed = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
    except OSError:
        return 24, 80
    rows, cols, _, _ = struct.unpack("HHHH", packed)
    return rows or 24, cols or 80


def write(file: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
