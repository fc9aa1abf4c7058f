"""A person's terminal joined to a session's terminal.

Bytes go through as they are, both ways; only the key that detaches is taken out.  A snapshot cuts the
connection for a moment: it is made again, and the output in between is read by its offset.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from types import FrameType

from holdfast.errors import GuestDisconnected, InvalidArgument
from holdfast.runtime import fields, keys
from holdfast.runtime.guest import protocol
from holdfast.runtime.guest_client import Connection, GuestClient
from holdfast.runtime.persistence import Persistence
from holdfast.runtime.results import Screen

DETACH_KEY = "C-]"
# What a program of the session may have switched on and a shell here does not expect: second screen,
# mouse, focus reports, bracketed paste, application keys, hidden cursor, colours.
RESET = (
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l"
    b"\x1b[?1l\x1b>\x1b[?25h\x1b[0m"
)


class Attachment:
    """One terminal, attached to one shell until it is detached or either side ends."""

    def __init__(
        self,
        client: GuestClient,
        persistence: Persistence,
        *,
        shell: str,
        screen: Callable[[], Screen],
        detach_key: str = DETACH_KEY,
        stdin: int | None = None,
        stdout: int | None = None,
    ) -> None:
        self._client = client
        self._persistence = persistence
        self._shell = shell
        self._screen = screen
        self._detach = keys.key(detach_key)
        self._in = sys.stdin.fileno() if stdin is None else stdin
        self._out = sys.stdout.fileno() if stdout is None else stdout
        self._next: int | None = None

    def run(self) -> str:
        """Pass bytes on until the person detaches (`detached`) or the shell is closed (its reason).

        The person's terminal is put back as it was, however this ends.

        Raises:
            InvalidArgument: there is no terminal to attach.
            SessionError: the session ended.
        """
        if not (os.isatty(self._in) and os.isatty(self._out)):
            raise InvalidArgument(
                "cannot attach: standard input or output is not a terminal",
                hint="programs use `holdfast exec`, `send` and `screen`",
            )
        with _raw(self._in, self._out), _signals() as wake:
            self._persistence.run(self._paint)
            return self._persistence.run(lambda: self._follow(wake))

    def _paint(self) -> None:
        """Begin with the screen as it is: to replay old output would ask old questions of this terminal."""
        screen = self._screen()
        row, col = screen.cursor
        text = screen.text.replace("\n", "\r\n").encode()
        _write(self._out, b"\x1b[H\x1b[2J" + text + b"\x1b[%d;%dH" % (row + 1, col + 1))

    def _follow(self, wake: int) -> str:
        rows, cols = _size(self._out)
        with self._client.open("attach", shell=self._shell, rows=rows, cols=cols, tail=0) as connection:
            while True:
                ready, _, _ = select.select([connection.socket, self._in, wake], [], [])
                if wake in ready:
                    self._signalled(wake, connection)
                if self._in in ready and self._typed(connection):
                    return "detached"
                if connection.socket in ready and (reason := self._shown(connection)):
                    return reason

    def _typed(self, connection: Connection) -> bool:
        """Send what was typed; true if it was the key that detaches."""
        try:
            data = os.read(self._in, 65536)
        except OSError:
            data = b""  # the terminal hung up
        before, found, _ = data.partition(self._detach)
        if before:
            connection.send({"v": protocol.VERSION, "op": "input"}, before)
        if found or not data:
            with contextlib.suppress(GuestDisconnected):
                connection.send({"v": protocol.VERSION, "op": "detach"})
            return True
        return False

    def _shown(self, connection: Connection) -> str:
        """Show what came; the reason if it was the end."""
        for frame in connection.receive():
            self._persistence.heard()
            kind = fields.event(frame)
            if kind == "attached":
                self._catch_up(fields.integer(frame, "offset"))
            elif kind == "output":
                self._next = fields.integer(frame, "next")
                _write(self._out, frame.payload)
            elif kind == "gap":
                self._next = fields.integer(frame, "offset") + fields.integer(frame, "size")
            elif kind == "closed":
                return fields.text(frame, "reason", "closed") or "closed"
            elif kind == "error":
                from holdfast.runtime.guest_client import raise_error

                raise_error(frame)
        return ""

    def _catch_up(self, offset: int) -> None:
        """After a reconnection, show what came while nobody listened."""
        start, self._next = self._next, offset
        if start is None or start >= offset:
            return
        with self._client.open("read", shell=self._shell, offset=start, follow=False) as connection:
            for frame in connection.events():
                if fields.event(frame) == "output" and fields.integer(frame, "offset") < offset:
                    _write(self._out, frame.payload)

    def _signalled(self, wake: int, connection: Connection) -> None:
        numbers = os.read(wake, 64)
        if any(number != signal.SIGWINCH for number in numbers):
            raise KeyboardInterrupt
        rows, cols = _size(self._out)
        connection.send({"v": protocol.VERSION, "op": "resize", "rows": rows, "cols": cols})


@contextlib.contextmanager
def _raw(stdin: int, stdout: int) -> Iterator[None]:
    """The terminal without any processing of its own, put back at the end."""
    before = termios.tcgetattr(stdin)
    tty.setraw(stdin)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        with contextlib.suppress(OSError):
            _write(stdout, RESET + b"\r\n")


@contextlib.contextmanager
def _signals() -> Iterator[int]:
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


def _size(terminal: int) -> tuple[int, int]:
    """Rows and columns; 24 x 80 if the terminal does not know."""
    try:
        packed = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
    except OSError:
        return 24, 80
    rows, cols, _, _ = struct.unpack("HHHH", packed)
    return rows or 24, cols or 80


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
