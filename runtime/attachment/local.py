"""The terminal of this process: its raw mode, its size, its signals."""

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

# The locale's encoding of the terminal. PEP 538 makes it UTF-8 where none is set.
ENCODING = getattr(sys.stdout, "encoding", None) or "utf-8"


@contextlib.contextmanager
def raw(stdin: int, stdout: int) -> Iterator[None]:
    """Switch the terminal to raw mode, and restore it at the end."""
    before = termios.tcgetattr(stdin)
    tty.setraw(stdin, termios.TCSADRAIN)
    try:
        yield
    finally:
        # A shell here does not expect what programs of the session switched on.
        with contextlib.suppress(OSError):
            write(stdout, LEAVE + BELOW)
        with contextlib.suppress(termios.error):
            # Mouse movements up to now have sent bytes that a shell here would take for typed input.
            termios.tcsetattr(stdin, termios.TCSAFLUSH, before)


@contextlib.contextmanager
def signals() -> Iterator[int]:
    """Yield a descriptor that becomes readable with the number of each signal received."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    numbers = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)

    def ignore(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: the number comes through the pipe."""

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
    """Return rows and columns; 24 x 80 if the terminal does not know."""
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
