"""The start and end of the process of the command `holdfast`.

Signals first: until the verbs are imported, Ctrl-C ends the process without a traceback; from then on SIGINT,
SIGTERM and SIGHUP all unwind it, so that unfinished work is undone. That holds however it was started:
scripts start background commands with SIGINT ignored. Only nohup is obeyed, because it is explicit.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from holdfast.base.version import VERSION

UNWINDING = (signal.SIGTERM, signal.SIGHUP)


def run() -> None:
    """Run the command line of this process and end the process."""
    _open_streams()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, it hides how child processes end
    if sys.argv[1:] == ["--version"]:  # asked for most, and answered before anything else is loaded
        sys.stdout.write(f"{VERSION}\n")
        return
    from holdfast.runtime.cli import printing

    call = _loaded(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in UNWINDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    code = call()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        printing.mute()
    sys.exit(code)


def _loaded(given: list[str]) -> Callable[[], int]:
    """Return what runs a command line, with all that it needs to be understood."""
    from holdfast.engine import usual_place
    from holdfast.runtime.cli import plain_forms, reporting

    form = plain_forms.matched(given) if usual_place.is_used() else _elsewhere(given)
    if form is not None:
        return lambda: reporting.reported(form, as_json="--json" in given)
    from holdfast.runtime.cli import app

    return lambda: app.call(given)


def _elsewhere(given: list[str]) -> Callable[[], int] | None:
    from holdfast.runtime.cli import elsewhere_form, plain_forms

    return elsewhere_form.matched(given) or plain_forms.matched(given)


def _open_streams() -> None:
    """Open what the caller closed: else the next file that is opened would be standard error."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _end(number: int, _frame: FrameType | None) -> None:
    """Leave as if by an error."""
    raise SystemExit(128 + number)
