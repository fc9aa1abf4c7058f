"""A program of a session, driven by pexpect: `expect`, `sendline`, `before`, `match` and the like.

Owns a `SpawnBase` of pexpect over a job, whose terminal is in the session: nothing of the program runs here,
and it continues when this process ends. Its output is passed on to a pipe, which pexpect reads as it reads
any descriptor. It must not know whether the session is in reach by a socket or by a URL.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pexpect import EOF, TIMEOUT, ExceptionPexpect, split_command_line
from pexpect.spawnbase import SpawnBase
from pexpect.utils import poll_ignore_interrupts

from holdfast.base.text import plain
from holdfast.errors import GuestError, InvalidArgument
from holdfast.runtime.api.terminal_pipe import RunningJob, SessionWithJobs, TerminalPipe
from holdfast.runtime.attachment import own_terminal
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.terminal.safe_output import SafeOutput

DIMENSIONS = (24, 80)  # of its terminal, as in pexpect
ESCAPE = chr(29)  # Ctrl-], which ends `interact`, as in pexpect
_LOOK = 0.25  # seconds between two looks at a terminal, each of which runs a program
_SETTINGS = ("timeout", "maxread", "searchwindowsize", "logfile", "encoding", "codec_errors")
"""The arguments of `SpawnBase`."""
_COPIED = (
    *("command", "args", "echo", "before", "after", "match", "match_index", "ignorecase", "delimiter"),
    *("delaybeforesend", "delayafterread", "delayafterclose", "delayafterterminate"),
    *("logfile_read", "logfile_send"),
)
_ENDINGS = ("HUP", "CONT", "INT")  # in the order of pexpect's own `terminate`


if TYPE_CHECKING:  # the published types have a parameter that the class lacks
    _SpawnBase = SpawnBase[Any]
else:
    _SpawnBase = SpawnBase


class SessionSpawning:
    """Starts programs of one session that pexpect drives."""

    def __init__(self, session: SessionWithJobs) -> None:
        self._session = session

    def spawn(
        self,
        command: str,
        args: Iterable[str] = (),
        *,
        timeout: float | None = 30,
        maxread: int = 2000,
        searchwindowsize: int | None = None,
        logfile: Any | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        ignore_sighup: bool = False,
        echo: bool = True,
        encoding: str | None = None,
        codec_errors: str = "strict",
        dimensions: tuple[int, int] = DIMENSIONS,
        name: str | None = None,
        user: str | None = None,
    ) -> SessionSpawn:
        """Start a program in a session, on a terminal of its own, and drive it as `pexpect.spawn` does.

        As there, `command` is split into words and no shell interprets it; `spawn("bash", ["-c", "…"])`
        starts one that does. It is a job of the session: `name` finds it again, and it outlives this process
        unless it is closed.

        Args:
            command: the program and its arguments, or the program alone if there are `args`.
            args: its arguments, as they are.
            timeout: seconds that `expect` waits by default; for ever if None.
            maxread: bytes that are read in one call.
            searchwindowsize: bytes at the end of the output in which patterns are searched; all if None.
            logfile: gets what is read and sent.
            cwd: a directory other than the shell's.
            env: more variables.
            ignore_sighup: whether the program begins with SIGHUP ignored.
            echo: whether the terminal shows what is typed.
            encoding: of the text; bytes if None.
            codec_errors: the handling of bytes that are not text.
            dimensions: rows and columns of the terminal.
            name: to find it by, while it runs.
            user: a user of the session, by default the session's.

        Raises:
            InvalidArgument: a command is missing.
        """
        words = [*(_words(command) if not args else [command]), *args]
        if isinstance(args, str):
            raise InvalidArgument("cannot start the program: its arguments must be a list of texts")
        if not words or not words[0]:
            raise InvalidArgument(
                "cannot start the program: its command is empty", hint="for example spawn('python3 -i')"
            )
        # Before anything can be typed, as pexpect has it.
        before = ("trap '' HUP; " if ignore_sighup else "") + ("" if echo else "stty -echo; ")
        rows, cols = dimensions
        job = self._session.detach(
            f"{before}exec {shlex.join(words)}", name=name, env=env, cwd=cwd, user=user, rows=rows, cols=cols
        )
        child = SessionSpawn(
            self._session,
            job,
            timeout=timeout,
            maxread=maxread,
            searchwindowsize=searchwindowsize,
            logfile=logfile,
            encoding=encoding,
            codec_errors=codec_errors,
        )
        child.command, child.args, child.echo = words[0], words, echo
        return child


class SessionSpawn(_SpawnBase):
    """A job of a session in the form of a pexpect child: all of `pexpect.spawn` that does not need a local
    process.

    `close` (and the end of a `with` block) ends the program, as in pexpect; `leave` does not. After a
    snapshot, a resume or a lost connection it reads on where it was; `in_fork` gives the same child in a
    copy of the session. A signal goes to all processes on the terminal. `pid` is the pid inside the
    session.
    """

    # Of `SpawnBase`, in bytes or text as the caller asked for.
    before: Any
    after: Any
    match: Any
    # Likewise; the published types lack these.
    _coerce_send_string: Callable[[Any], Any]
    _log: Callable[[Any, str], None]
    _encoder: Any
    _decoder: Any
    _buffer: Any
    _before: Any

    def __init__(
        self,
        session: SessionWithJobs,
        job: RunningJob,
        *,
        start: int = 0,
        **settings: Any,
    ) -> None:
        """Follow a job from an offset of its output; the settings are `SpawnBase`'s."""
        super().__init__(**settings)
        self.job = job
        self._session = session
        self.command: str | None = None
        self.args: list[str] = []
        self.echo = True
        self.pid = job.info().pid
        self.name = f"<job {job.id}>"
        self.closed = False
        self.terminated = False
        self._pump = self._follow(start)

    @property
    def offset(self) -> int:
        """The offset in the program's output of the next read."""
        return self._pump.offset

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is output."""
        return int(self.child_fd)

    def isatty(self) -> bool:
        """Return True: the program has a terminal, in its session."""
        return True

    def read_nonblocking(self, size: int = 1, timeout: float | None = -1) -> Any:
        """Return up to `size` bytes of output, waiting for the first of them; -1 means `self.timeout`.

        Raises:
            TIMEOUT: there was none.
            EOF: the program has ended, and all was read.
            HoldfastError: the session cannot be reached. The next call tries it again, from the same offset.
        """
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        self._again()
        waits = self.timeout if timeout == -1 else timeout
        if not poll_ignore_interrupts([self.child_fd], None if waits is None else max(0.0, waits)):
            raise TIMEOUT("Timeout exceeded.")
        try:
            return super().read_nonblocking(size)
        except EOF:
            if self._pump.error is not None:
                self.flag_eof = False
                raise self._pump.error from None
            self._note(self._pump.result)
            raise

    def _follow(self, start: int) -> TerminalPipe:
        pump = TerminalPipe(self.job, start)
        self.child_fd = pump.descriptor
        return pump

    def _again(self) -> None:
        """Resume following if the session was unreachable at the last read."""
        if self._pump.error is None or self._pump.unread():
            return
        reached, end = self._pump.offset, self.job.info().end_offset
        if reached > end:  # it went back to an earlier moment, and what was read since never happened
            self._buffer, self._before = type(self._buffer)(), type(self._before)()
        self._pump.end()
        self._pump = self._follow(min(reached, end))

    def send(self, s: Any) -> int:
        """Type text into its terminal, after `delaybeforesend`; return the number of bytes."""
        if self.delaybeforesend is not None:
            time.sleep(self.delaybeforesend)
        text = self._coerce_send_string(s)
        self._log(text, "send")
        data = self._encoder.encode(text, final=False)
        self.job.send(data)
        return len(data)

    def sendline(self, s: Any = "") -> int:
        """Type a line."""
        return self.send(self._coerce_send_string(s) + self.linesep)

    def write(self, s: Any) -> None:
        """Type text, as `send`."""
        self.send(s)

    def writelines(self, sequence: Iterable[Any]) -> None:
        """Type each text of a sequence; no line ends are added."""
        for text in sequence:
            self.write(text)

    def sendcontrol(self, char: str) -> int:
        """Type a control character: `sendcontrol("c")` is Ctrl-C."""
        lower = char.lower()
        code = {"@": 0, "`": 0, "[": 27, "{": 27, "\\": 28, "|": 28, "]": 29, "}": 29, "^": 30, "~": 30,
                "_": 31, "?": 127}.get(lower)  # fmt: skip
        if code is None:
            if len(lower) != 1 or not "a" <= lower <= "z":
                return 0
            code = ord(lower) - ord("a") + 1
        return self._key(code)

    def sendeof(self) -> None:
        """Type Ctrl-D, which ends the input of a line-reading program if the line is empty."""
        self._key(4)

    def sendintr(self) -> None:
        """Type Ctrl-C."""
        self._key(3)

    def _key(self, code: int) -> int:
        byte = bytes([code])
        self._log(byte if self.encoding is None else byte.decode("ascii"), "send")
        self.job.send(byte)
        return 1

    def getwinsize(self) -> tuple[int, int]:
        """Return the rows and columns of its terminal."""
        info = self.job.info()
        return info.rows, info.cols

    def setwinsize(self, rows: int, cols: int) -> None:
        """Change the size of its terminal; its foreground processes get SIGWINCH."""
        self.job.resize(rows, cols)

    def getecho(self) -> bool:
        """Return whether its terminal echoes typed text, which it does not during a password prompt.

        Raises:
            GuestError: its standard input is not the terminal, or it has ended.
        """
        return " -echo " not in self._stty("-a")

    def setecho(self, state: bool) -> None:
        """Turn its terminal's echo on or off; raises as `getecho` does."""
        self._stty("echo" if state else "-echo")
        self.echo = state

    def _stty(self, what: str) -> str:
        told = self._session.run(["stty", "-F", f"/proc/{self.pid}/fd/0", what])
        if not told.ok:
            why = plain(told.stderr.decode(errors="replace"), 200)
            raise GuestError(f"cannot reach the terminal of job {self.job.id}: {why}")
        return told.text

    def waitnoecho(self, timeout: float | None = -1) -> bool:
        """Wait until the terminal stops echoing; return False after the time limit."""
        waits = self.timeout if timeout == -1 else timeout
        until = None if waits is None else time.monotonic() + waits
        while self.getecho():
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_LOOK)
        return True

    def interact(
        self,
        escape_character: str | None = ESCAPE,
        input_filter: Callable[[bytes], bytes] | None = None,
        output_filter: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Join the terminal of this process to the program's, until the escape character is typed or it ends.

        Output for this terminal is filtered as in `attach`: a program must not make it type answers.
        """
        escape = None if escape_character is None else escape_character.encode("latin-1")
        shown = SafeOutput()
        shows: Any = self.write_to_stdout
        shows(self.buffer)
        self.stdout.flush()
        self._buffer = type(self._buffer)()
        keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
        with own_terminal.raw_keys(keys, termios.TCSAFLUSH):
            self._join(keys, screen, escape, input_filter or bytes, output_filter or bytes, shown)
        os.write(screen, shown.end())

    def _join(
        self,
        keys: int,
        screen: int,
        escape: bytes | None,
        typed: Callable[[bytes], bytes],
        written: Callable[[bytes], bytes],
        shown: SafeOutput,
    ) -> None:
        while True:
            ready = poll_ignore_interrupts([self.child_fd, keys])
            if self.child_fd in ready:
                data = os.read(self.child_fd, 4096)
                if not data:
                    return
                os.write(screen, shown.feed(written(data)))
            if keys in ready:
                pressed = os.read(keys, 4096)
                before, found, _ = pressed.partition(escape) if escape else (pressed, b"", b"")
                if before := typed(before):
                    self.job.send(before)
                if found or not pressed:
                    return

    def isalive(self) -> bool:
        """Return whether it runs; its end sets `exitstatus` and `signalstatus`."""
        if self.terminated:
            return False
        info = self.job.info()
        if not info.running:
            self._ended(info.exit_code, info.signal)
        return info.running

    def wait(self) -> int | None:
        """Wait for its end, without reading its output; return its exit status, None if a signal ended it."""
        if not self.terminated:
            self._wait(None)
        return self.exitstatus

    def _wait(self, seconds: float | None) -> bool:
        end = self.job.info().end_offset
        self._note(self.job.wait(start=end, wait=True, patience=seconds, raw=True))
        return self.terminated

    def _note(self, result: ExecResult | None) -> None:
        if result is not None and not result.running:
            self._ended(result.exit_code, result.signal)

    def _ended(self, code: int | None, number: int | None) -> None:
        self.terminated = True
        self.signalstatus = number
        self.exitstatus = None if number else code
        # As waitpid(2) has it, which is what callers of pexpect take apart.
        self.status = number if number else (code or 0) << 8

    def kill(self, sig: int) -> None:
        """Send a signal to everything on its terminal, if it runs."""
        if self.isalive():
            self.job.signal(signal.Signals(sig).name.removeprefix("SIG"))

    def terminate(self, force: bool = False) -> bool:
        """End it by SIGHUP and SIGINT, and with `force` by SIGKILL; return whether it has ended."""
        for name in (*_ENDINGS, *(("KILL",) if force else ())):
            if not self.isalive():
                return True
            with contextlib.suppress(GuestError):  # it ended just now
                self.job.signal(name)
            if name != "CONT" and self._wait(self.delayafterterminate):
                return True
        # A machine may be too busy to end it within a tenth of a second, but SIGKILL does end it.
        return self._wait(10.0) if force else not self.isalive()

    def close(self, force: bool = True) -> None:
        """End the program, and stop reading.

        Raises:
            ExceptionPexpect: it did not end, which `force` makes it.
        """
        if self.closed:
            return
        try:
            if not self.terminate(force):
                raise ExceptionPexpect("Could not terminate the child.")
        finally:
            self.leave()

    def leave(self) -> None:
        """Stop reading, and leave the program running: `session.job(child.job.id)` finds it again."""
        self._pump.end()
        self.child_fd = -1
        self.closed = True

    def __del__(self) -> None:
        """Stop reading. Unlike a child of pexpect, the program continues."""
        if not self.closed and hasattr(self, "_pump"):
            self.leave()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def in_fork(self, copy: SessionWithJobs) -> Self:
        """Return this child in a copy of the session, at the same point of its output.

        Unmatched input, `before`, `match` and the settings are the same.

        Raises:
            JobNotFound: the copy does not have that job.
        """
        job = copy.job(self.job.id)
        settings = {name: getattr(self, name) for name in _SETTINGS}
        child = type(self)(copy, job, start=min(self.offset, job.info().end_offset), **settings)
        for name in _COPIED:
            setattr(child, name, getattr(self, name))
        child._buffer.write(self._buffer.getvalue())
        child._before.write(self._before.getvalue())
        if self.encoding is not None:
            child._decoder.setstate(self._decoder.getstate())
        return child

    def __repr__(self) -> str:
        return f"<SessionSpawn of job {self.job.id}>" if hasattr(self, "job") else "<SessionSpawn>"

    def __str__(self) -> str:
        """Describe the child without a request to the session."""
        known = (
            "command",
            "args",
            "before",
            "after",
            "match",
            "exitstatus",
            "signalstatus",
            "closed",
            "offset",
        )
        return "\n".join([repr(self), *(f"{name}: {getattr(self, name)!r}" for name in known)])


def _words(command: str) -> list[str]:
    split: Callable[[str], list[str]] = split_command_line
    return split(command)
