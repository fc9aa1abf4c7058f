"""The lines that `holdfast -v VERB` writes to standard error: each request to the engine, a session, the
checkpointer or a server as it begins, and its duration.

Requests are raised as audit events (PEP 578), which cost nothing unless they are watched: `holdfast.asks`
with a number, the part that is asked, and the request; `holdfast.answered` with the number. Only the names of
requests are shown: arguments, queries, bodies and headers can hold secrets.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable

from holdfast.runtime.cli import printing

ASKS, ANSWERED = "holdfast.asks", "holdfast.answered"
_ID = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
"""The id of a container or an image, of which the first digits suffice."""
STARTS = "subprocess.Popen"
"""The audit event of Python's own for a program that is started."""


class AskedLines:
    """The requests under way. Events can come from any thread."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._began = time.monotonic()
        self._under_way: dict[int, tuple[str, float]] = {}
        self._last = ""
        self._repeats = 0
        self._lock = threading.Lock()

    def watch(self, event: str, arguments: tuple[object, ...]) -> None:
        """Write a line for an audit event about a request; never raise, which would end the request."""
        if event not in (ASKS, ANSWERED, STARTS):
            return
        now = time.monotonic()
        if event == STARTS:
            self._say(now, f"starts {_program(arguments)}")
        elif event == ASKS:
            number, part, request = arguments
            if isinstance(number, int) and request is not None:
                self._begin(now, number, _ID.sub(r"\1", f"{part}: {request}"))
        elif isinstance(number := arguments[0], int):
            with self._lock:
                found = self._under_way.pop(number, None)
            if found is not None:
                self._say(now, f"{found[0]} took {now - found[1]:.3f} s")

    def _begin(self, now: float, number: int, text: str) -> None:
        """Write that a request begins, unless it repeats the last one, as polling does."""
        with self._lock:
            repeats = self._repeats
            self._repeats = repeats + 1 if text == self._last else 0
            if self._repeats:
                return
            self._last = text
            self._under_way[number] = text, now
        if repeats:
            self._say(now, f"the same {repeats} times more")
        self._say(now, f"asks {text}")

    def _say(self, now: float, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # its reader is gone, or the stream is closed
            self._write(f"{now - self._began:8.3f} s  {text}")


def show() -> None:
    """Show requests from now on, to the end of this process: an audit hook cannot be removed."""
    sys.addaudithook(AskedLines(printing.note).watch)


def _program(arguments: tuple[object, ...]) -> str:
    """Return the name of a started program, without its arguments."""
    executable, words = arguments[0], arguments[1]
    first = executable or (words[0] if isinstance(words, list | tuple) and words else words)
    if not isinstance(first, str | bytes | os.PathLike):
        return "a program"
    return os.fsdecode(first).rpartition("/")[2]
