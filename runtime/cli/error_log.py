"""The log of unexpected errors: a traceback each, without secrets, and a line that names the file.

`HOLDFAST_LOG` names a file; otherwise it is `errors.log` in the home, of which the newest part is kept.
Values of the environment whose names say that they are secret, and arguments of the command line that are
values or commands, are removed, as is everything that looks like a secret (`runtime/scrubbing`).
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.base.version import VERSION
from holdfast.runtime.cli import printing

VARIABLE = "HOLDFAST_LOG"
NAME = "errors.log"
MOST = 256 << 10
"""Bytes of the home's log; when it has grown beyond them, the newest half is kept."""
LONGEST = 64 << 10
"""Bytes of one traceback."""
CODE = "internal_error"
_ARGUMENT = "argument "


def report(error: Exception, given: Sequence[str], *, as_json: bool) -> int:
    """Write an unexpected error to the log, and a line about it to standard error; return the exit code."""
    text = without_secrets("".join(traceback.format_exception(error)), given)
    if text is None:  # the search itself failed: no text of the error is known to be safe
        text = "".join(traceback.format_tb(error.__traceback__)) + f"{type(error).__name__}\n"
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n…\n{text[-LONGEST // 2 :]}"
    try:
        where = f"in {_keep(text)}; a report of it helps"
    except Exception as unwritten:  # noqa: BLE001 - the home cannot be used either
        sys.stderr.write(text)
        where = f"above; no log could be written ({type(unwritten).__name__})"
    last = text.rstrip().rpartition("\n")[2]
    message = f"cannot continue because of an error in Holdfast itself: {last}"
    hint = f"its traceback is {where}"
    printing.report(CODE, message, hint, as_json=as_json)
    return 1


def without_secrets(text: str, given: Sequence[str]) -> str | None:
    """Return a text without secrets, for the command line `given`; None if they cannot be searched for."""
    try:
        from holdfast.runtime.ci.redaction import Redaction
        from holdfast.runtime.scrubbing.rules_file import ScrubbingRules

        variables = {**os.environ, **dict(_values(given))}
        return Redaction(variables, (f"{_ARGUMENT}*",), ScrubbingRules().matcher()).text(text)
    except Exception:  # noqa: BLE001 - perhaps the very error that is to be reported
        return None


def _values(given: Sequence[str]) -> list[tuple[str, str]]:
    """Return the words of a command line that can hold a secret: values after `=`, and texts with blanks."""
    found = [word for word in given if " " in word]
    for word in given:  # `--secret=NAME=VALUE`: all that follows each of them
        found += [word[at + 1 :] for at, character in enumerate(word) if character == "="]
    return [(f"{_ARGUMENT}{number}", value) for number, value in enumerate(found)]


def _keep(text: str) -> Path:
    """Add a traceback to the log and return the log's path.

    Raises:
        OSError, StoreError: it cannot be written.
    """
    chosen = os.environ.get(VARIABLE)
    path = Path(chosen).absolute() if chosen else Home.default().create().root / NAME
    if not chosen and path.exists() and path.stat().st_size > MOST:
        kept = path.read_bytes()[-MOST // 2 :]
        private_files.replace(path, kept[kept.find(b"\n\n") + 2 :], durable=False)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    head = f"{moment} Holdfast {VERSION}, Python {sys.version.split()[0]}"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, private_files.MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(f"{head}\n{text.rstrip()}\n\n".encode("utf-8", "backslashreplace"))
    return path
