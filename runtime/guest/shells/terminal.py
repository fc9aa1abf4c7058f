"""A process on its own pseudo-terminal, seen through the terminal's master side.

It moves bytes and signals and decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import ptyprocess  # type: ignore[import-untyped]

from holdfast.base.value_classes import dataclass

READ_SIZE = 64 << 10
READS_PER_TURN = 64
_IUTF8 = 0x4000
_TIOCGPTPEER = 0x5441
_TIOCSIG = 0x40045436
_LINE_ENDS = (
    *(termios.VEOF, termios.VEOL, termios.VEOL2, termios.VKILL),
    *(termios.VINTR, termios.VQUIT, termios.VSUSP),
)


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Rows and columns of a terminal."""

    rows: int
    columns: int


class ProcessTerminal:
    """Starts the process; owns the master side until `close`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        size: TerminalSize,
        in_child: Callable[[], None],
    ) -> None:
        """Start argv. `in_child` runs in the new process, before the program."""

        def prepare() -> None:
            # Python ignores these two, and ignored signals stay ignored in what is started.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            # Here, not in the parent: its late write would undo what the program has set by then.
            _know_utf8(0)
            in_child()

        process = ptyprocess.PtyProcess.spawn(
            list(argv), cwd=cwd, env=dict(env), preexec_fn=prepare, dimensions=(size.rows, size.columns)
        )
        descriptor = os.dup(process.fd)
        process.fileobj.close()
        # Otherwise the object would end the process when it is collected as garbage.
        process.closed = True
        self._own(process.pid, descriptor, size)

    def _own(self, pid: int, descriptor: int, size: TerminalSize) -> None:
        self.pid = pid
        self.fd = descriptor
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)
        self.size = size
        self._writing = asyncio.Lock()

    @classmethod
    def adopted(cls, pid: int, descriptor: int) -> ProcessTerminal:
        """Take over the master side of a terminal whose process a previous supervisor started."""
        made = cls.__new__(cls)
        made._own(pid, descriptor, size_of(descriptor))
        made.hold_output(hold=False)  # that one may have ended in the pause of a capture
        return made

    def read(self) -> bytes | None:
        """Return the available bytes, empty if there are none, None if the other side is permanently
        closed."""
        parts: list[bytes] = []
        for _ in range(READS_PER_TURN):
            try:
                data = os.read(self.fd, READ_SIZE)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                return b"".join(parts) or None
            parts.append(data)
        return b"".join(parts)

    def write_now(self, data: bytes) -> int:
        """Write as much as fits, and return the number of bytes."""
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0

    async def write(self, data: bytes) -> None:
        """Write all the data, waiting while the terminal accepts none."""
        loop = asyncio.get_running_loop()
        async with self._writing:
            while data := data[self.write_now(data) :]:
                ready = loop.create_future()
                loop.add_writer(self.fd, _resolve, ready)
                try:
                    await ready
                finally:
                    loop.remove_writer(self.fd)

    def resize(self, size: TerminalSize) -> None:
        """Change the size; the kernel notifies the foreground processes."""
        termios.tcsetwinsize(self.fd, (size.rows, size.columns))
        self.size = size

    def line_modes(self) -> tuple[bool, bool]:
        """Return whether it reads lines (ICANON), and whether it shows what is typed (ECHO)."""
        try:
            modes = termios.tcgetattr(self.fd)[3]
        except termios.error:
            return False, False
        return bool(modes & termios.ICANON), bool(modes & termios.ECHO)

    def line_ends(self) -> bytes:
        """Return the characters that end or discard a line, empty if it does not read lines."""
        try:
            attributes = termios.tcgetattr(self.fd)
        except termios.error:
            return b""
        if not attributes[3] & termios.ICANON:
            return b""
        special: list[bytes] = [attributes[6][index] for index in _LINE_ENDS]
        return b"\n" + b"".join(special).replace(b"\0", b"") + b"\r" * bool(attributes[0] & termios.ICRNL)

    def foreground(self) -> int | None:
        """Return the foreground process group, if there is one."""
        try:
            group = os.tcgetpgrp(self.fd)
        except OSError:
            return None
        return group if group > 0 else None

    def signal_group(self, group: int, number: int) -> None:
        """Send a signal to a process group."""
        _signal_group(group, number)

    def signal_foreground(self, number: int) -> None:
        """Send a signal to the foreground process group, never to the shell that was started here."""
        group = self.foreground()
        if group and group != self.pid:
            _signal_group(group, number)

    def interrupt(self) -> None:
        """Interrupt the terminal's foreground now, even in raw mode.

        The key itself would be read some time later, and make the terminal drop the output it holds.
        """
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.fd, _TIOCSIG, signal.SIGINT)

    def resume(self) -> None:
        """Continue the process and its group after a stop."""
        _signal_group(self.pid, signal.SIGCONT)

    def takes_keys(self) -> bool:
        """Return whether a program reads single keys, and has read all there were."""
        canonical, _ = self.line_modes()
        if canonical:
            return False
        with contextlib.suppress(OSError), self._other_side() as other:
            unread: bytes = fcntl.ioctl(other, termios.FIONREAD, b"\0\0\0\0")
            return not any(unread)
        return False

    def restart_output(self) -> None:
        """Act as Ctrl-Q does, in case Ctrl-S has stopped the output."""
        attributes = termios.tcgetattr(self.fd)
        if attributes[0] & termios.IXON:
            self.write_now(attributes[6][termios.VSTART])

    def hold_output(self, *, hold: bool) -> None:
        """Make writing programs wait, so that later reads are complete; or let them continue.

        CRIU takes output that is still in a terminal and puts it back after later output, or drops it, so
        no output can be in flight during a capture. Programs only notice that their writes wait.
        """
        with contextlib.suppress(OSError), self._other_side() as other:
            # Flow control belongs to the other side.
            termios.tcflow(other, termios.TCOOFF if hold else termios.TCOON)

    @contextlib.contextmanager
    def _other_side(self) -> Iterator[int]:
        """Open the programs' side, see tty_ioctl(4), TIOCGPTPEER."""
        other = fcntl.ioctl(self.fd, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            yield other
        finally:
            os.close(other)

    def close(self) -> None:
        """Hang up."""
        os.close(self.fd)


def size_of(master: int) -> TerminalSize:
    """Return the size of a terminal."""
    return TerminalSize(*termios.tcgetwinsize(master))


def _know_utf8(fd: int) -> None:
    """Make the line discipline erase whole characters. See termios(3), IUTF8."""
    attributes = termios.tcgetattr(fd)
    attributes[0] |= _IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def command_of(group: int | None) -> str:
    """Return the command line of a process group for people to read, or an empty string."""
    if group is None:
        return ""
    try:
        words = Path(f"/proc/{group}/cmdline").read_bytes()[:200].split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode("utf-8", "replace") for word in words).strip()


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
