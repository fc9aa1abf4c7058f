"""The supervisor as a process among the session's programs: name, signals, clock, log, and its predecessor.

People and agents end programs by name all day (`pkill python`, `kill -15 -1`), and mean theirs. So this
process does not have an interpreter's name, and ends only when the first process asks
(`images/toolbox/init.c`).

The monotonic clock jumps when a process is captured and restored: forward by the pause, or backward where
the machine booted later. Timers (a command's timeout) must not notice, so the loop's clock stops for that
time; a capture announces a jump. Does not know the supervisor's tasks.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import time
from pathlib import Path

from holdfast.procfs import process_stat
from holdfast.runtime.guest.layout import GUEST_TREE
from holdfast.runtime.guest.pulse.deaths import ProcessEnd

_in_container = False
NAME = b"holdfast"
ENDING = b"ending"
"""The name that the first process takes when it was asked from outside to end the session."""
_ENDED = "HOLDFAST_SUPERVISOR_ENDED"
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_ARGUMENTS = slice(45, 47)
"""Where /proc/PID/stat has the addresses of the arguments, among the fields after the name."""
_IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that Python ignores in its own process; programs started from here get their defaults."""
_LEFT = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, *_IGNORED_BY_PYTHON),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),  # it is continued at once
    *(
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGABRT,
        signal.SIGTRAP,
        signal.SIGSYS,
    ),
}
"""Signals that are not handled: they cannot be, they end nothing, or they report a fault of this process."""
MAX_STEP = 1.0
"""Seconds the clock can advance between two readings while jumps are expected."""
LOG_LIMIT = 512 << 10


def take_name() -> None:
    """Replace the name and the command line, by which `pkill` and `pkill -f` choose.

    The interpreter takes its own place from the words it was started with, so they are changed afterwards.
    """
    _prctl(_PR_SET_NAME, NAME)
    try:
        fields = process_stat.fields(Path("/proc/self/stat").read_bytes())
        start, end = map(int, fields[_ARGUMENTS])
    except (OSError, ValueError):
        return
    words = os.fsencode(GUEST_TREE)
    if 0 < start < end and len(words) < end - start:
        ctypes.memmove(start, words.ljust(end - start, b"\0"), end - start)


def close_to_tracers() -> None:
    """Keep the session's programs from tracing this process, the root of the captured tree (prctl(2)).

    Root in a session does not have CAP_SYS_PTRACE. Programs started from here can be traced again.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def heed_signals() -> None:
    """Undo ignored and blocked signals inherited from our parent: our children would inherit them."""
    for number in signal.valid_signals() - _IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def outlive_signals(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    """Survive what programs send; set `over` when the session is to end.

    Handlers, not SIG_IGN: that would be inherited by children.
    """

    def end() -> None:
        if asked_from_outside():
            over.set()

    for number in signal.valid_signals() - _LEFT:
        loop.add_signal_handler(number, end if number == signal.SIGTERM else _ignore)


def asked_from_outside() -> bool:
    """Return whether a SIGTERM comes from the first process, which passes on outside signals only."""
    if not _in_container:
        return True
    try:
        return Path("/proc/1/comm").read_bytes().strip() == ENDING
    except OSError:
        return False


def heed_only_the_first_process() -> None:
    """Let a SIGTERM end this process only if the container's first process is ending the session."""
    global _in_container
    _in_container = True


def predecessor() -> ProcessEnd | None:
    """Return how the supervisor before this one ended, once; None if there was none."""
    status = os.environ.pop(_ENDED, "")
    return ProcessEnd.of_status(int(status)) if status.isdecimal() else None


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _ignore() -> None:
    """Handle a signal without ending."""


class SteadyLoop(asyncio.SelectorEventLoop):
    """A selector loop whose `time` hides jumps while `watchful` is set; it must then be read often."""

    def __init__(self) -> None:
        self._skew = 0.0
        self._last = time.monotonic()
        self.watchful = False
        super().__init__()

    def time(self) -> float:
        """Return seconds for which this process could run."""
        now = time.monotonic()
        if self.watchful and not 0.0 <= now - self._last <= MAX_STEP:
            self._skew -= now - self._last
        self._last = now
        return now + self._skew

    def look(self) -> None:
        """Read the clock, so that later jumps are measured from now."""
        self._last = time.monotonic()


class BoundedFileHandler(logging.Handler):
    """Appends records to a file; at the limit the file becomes `<name>.old` and a new one begins.

    The file is opened for every record: none is open when the process is captured, and records are rare.
    """

    def __init__(self, path: Path, limit: int = LOG_LIMIT) -> None:
        super().__init__()
        self._path = path
        self._limit = limit

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. A full disk does not stop the supervisor."""
        try:
            line = self.format(record) + "\n"
            with self._path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(line)
                size = file.tell()
            if size > self._limit:
                self._path.replace(self._path.with_suffix(".old"))
        except OSError:
            return


def log_to(path: Path) -> None:
    """Send the log of this process to path."""
    handler = BoundedFileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
