"""The start and end of the process of the command `holdfast`.

Signals first: until the verbs are imported, Ctrl-C ends the process without a traceback; from then on SIGINT,
SIGTERM and SIGHUP all unwind it, so that unfinished work is undone. That holds however it was started:
scripts start background commands with SIGINT ignored. Only nohup is obeyed, because it is explicit.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable

from holdfast.base.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

UNWINDING = (signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """Run the command line of this process and end the process."""
    ending = _Ending()
    if not atexit._ncallbacks():  # else what is registered earlier would not run: functions run in reverse
        atexit.register(ending.cut_short)
    ending.code = run()
    sys.exit(ending.code)


class _Ending:
    """The end of the process without freeing what it has loaded, which takes a fifth of the time of some
    verbs.

    Threads have ended then, and all functions for the exit have run.
    """

    code: int | None = None

    def cut_short(self) -> None:
        """End the process now; after an exception, leave that to Python, which reports it."""
        if self.code is None:
            return
        with contextlib.suppress(OSError):  # its reader is gone, or the disk is full
            sys.stderr.flush()
        os._exit(self.code)


def run() -> int:
    """Run the command line of this process and return its exit code."""
    _open_streams()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, it hides how child processes end
    code = 0
    try:
        if sys.argv[1:] == ["--version"]:  # asked for most, and answered before anything else is loaded
            sys.stdout.write(f"{VERSION}\n")
        else:
            code = _reported(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        from holdfast.runtime.cli import reporting

        failed = reporting.unwritten(error)
        return code if isinstance(error, BrokenPipeError) else code or failed
    return code


def _reported(given: list[str]) -> int:
    """Return the exit code of a command line; keep the traceback of an unexpected error."""
    try:
        return _called(given)
    except Exception as error:  # the last place that sees it
        if _Interrupt.came:
            return _interrupted(given)
        if isinstance(error, OSError):
            from holdfast.runtime.cli import reporting

            if reporting.is_of_output(error):
                raise
        return _logged(error, given)


def _interrupted(given: list[str]) -> int:
    """Report Ctrl-C that came as a different error: libraries in C put it into one of their own."""
    from holdfast.runtime.cli import reporting

    def again() -> int:
        raise KeyboardInterrupt

    return reporting.reported(again, as_json=reporting.wants_json(given))


class _Interrupt:
    """Ctrl-C, recorded when it arrives."""

    came = False

    @classmethod
    def handle(cls, number: int, frame: FrameType | None) -> None:
        cls.came = True
        signal.default_int_handler(number, frame)


def _logged(error: Exception, given: list[str]) -> int:
    from holdfast.runtime.cli import error_log, reporting

    return error_log.report(error, given, as_json=reporting.wants_json(given))


def _called(given: list[str]) -> int:
    call = _loaded(given)
    signal.signal(signal.SIGINT, _Interrupt.handle)
    for number in UNWINDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    return call()


def _loaded(given: list[str]) -> Callable[[], int]:
    """Return the function that runs a command line, with all that parsing it needs."""
    from holdfast.engine import usual_place
    from holdfast.runtime.cli import command_line

    there = None if usual_place.is_used() else _elsewhere(given)
    return there or command_line.prepared(given)


def _elsewhere(given: list[str]) -> Callable[[], int] | None:
    """Return the function that runs a command line on the engine's machine; None if that is this one."""
    from holdfast.engine import engine_place
    from holdfast.errors import HoldfastError
    from holdfast.runtime.cli import caller, printing, reporting

    here = ("--help", "-h", "--version", "--install-completion", "--show-completion")
    if not given or given[0] in here or caller.COMPLETION in os.environ:
        return None
    try:
        place = engine_place.find()
    except HoldfastError:  # whatever needs the engine reports it
        return None
    if not place.elsewhere:
        return None
    from holdfast.runtime.remote import elsewhere

    as_json = reporting.wants_json(given)
    return lambda: reporting.reported(lambda: elsewhere.run(given, place, printing.note), as_json=as_json)


def _open_streams() -> None:
    """Open streams that the caller closed; otherwise the next opened file would become standard error."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if not sys.stdout.encoding.startswith("utf") or not sys.stderr.encoding.startswith("utf"):
        from holdfast.runtime.cli import printing

        printing.never_fail()


def _end(number: int, _frame: FrameType | None) -> None:
    """End the process as after an error."""
    raise SystemExit(128 + number)
