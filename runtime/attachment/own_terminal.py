"""The terminal of this process: its raw mode, size and signals, and its role as an end of an attachment."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import sys
import termios
import tty
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import Self

from holdfast.errors import InvalidArgument
from holdfast.runtime.terminal.safe_output import BELOW, LEAVE

# The locale's encoding of the terminal. PEP 538 makes it UTF-8 where none is set.
ENCODING = getattr(sys.stdout, "encoding", None) or "utf-8"
NUMBERS = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def raw_keys(terminal: int, when: int) -> Iterator[None]:
    """Pass every key on as it is pressed; `when` says how the mode is restored (termios(3))."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(terminal, when, before)


@contextlib.contextmanager
def raw(stdin: int, stdout: int) -> Iterator[None]:
    """Switch the terminal to raw mode, and restore it at the end."""
    # Mouse movements up to the end have sent bytes that a shell here would take for typed input: flushed.
    with raw_keys(stdin, termios.TCSAFLUSH):
        try:
            yield
        finally:
            # A shell here does not expect what programs of the session switched on.
            with contextlib.suppress(OSError):
                write(stdout, LEAVE + BELOW)


@contextlib.contextmanager
def signals(numbers: Collection[signal.Signals] = NUMBERS) -> Iterator[int]:
    """Yield a descriptor that becomes readable with the number of each of these signals received."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

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
    """Write all the data."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


class OwnTerminal:
    """Standard input and output, in raw mode; `wake` is readable with the number of each signal."""

    def __init__(self, stdin: int, stdout: int, wake: int) -> None:
        self._in, self._out, self._wake = stdin, stdout, wake
        self.encoding = ENCODING

    @classmethod
    @contextlib.contextmanager
    def entered(cls) -> Iterator[Self]:
        """Yield the terminal; its mode is restored in any case.

        Raises:
            InvalidArgument: there is none.
        """
        stdin, stdout = sys.stdin.fileno(), sys.stdout.fileno()
        if not (os.isatty(stdin) and os.isatty(stdout)):
            raise InvalidArgument(
                "cannot attach: standard input or output is not a terminal",
                hint="programs use `holdfast exec`, `send` and `screen`",
            )
        with raw(stdin, stdout), signals() as wake:
            yield cls(stdin, stdout, wake)

    def descriptors(self) -> Sequence[int]:
        """Return the descriptors to wait for."""
        return self._in, self._wake

    def typed(self, ready: Collection[int]) -> bytes | None:
        """Return the typed input, empty once the terminal has hung up."""
        if self._in not in ready:
            return None
        try:
            return os.read(self._in, 65536)
        except OSError:
            return b""

    def resized(self, ready: Collection[int]) -> bool:
        """Return whether the terminal's size has changed.

        Raises:
            KeyboardInterrupt: this process is asked to end.
        """
        if self._wake not in ready:
            return False
        if any(number != signal.SIGWINCH for number in os.read(self._wake, 64)):
            raise KeyboardInterrupt
        return True

    def size(self) -> tuple[int, int]:
        """Return rows and columns."""
        return size(self._out)

    def write(self, data: bytes) -> None:
        """Show output."""
        write(self._out, data)
