"""The line of a person's terminal that shows the progress of a long operation, until other output is written.

Nothing is written before the first second, and nothing to pipes and files. Knows no operation: steps are
given to it. `printing` clears the line before it writes.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from holdfast.base.text import plain
from holdfast.runtime.cli import printing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.operations.step import Step

PATIENCE = 1.0
"""Seconds before anything is shown: a shorter step does not need a line."""
REFRESH = 0.5
"""Seconds between two updates of the time."""
_CLEAR = "\r\x1b[2K"


class StepLine:
    """The line. Steps can come from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._step: Step | None = None
        self._since = 0.0
        self._shown = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()

    def __call__(self, step: Step | None) -> None:
        """Show a step that begins; None: no operation is under way."""
        with self._lock:
            if self._step is None and step is not None:
                self._since = time.monotonic()
            self._step = step
            if step is None:
                self._erase()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="step-line", daemon=True)
                self._thread.start()
        self._changed.set()

    def clear(self) -> None:
        """Make room for other output; the line returns below it with the next update."""
        with self._lock:
            self._erase()

    def _keep(self) -> None:
        while True:
            self._changed.clear()
            with self._lock:
                under_way = self._step is not None
                waited = time.monotonic() - self._since
                if under_way and waited >= PATIENCE and not printing.line_open:
                    self._draw(waited)
            self._changed.wait(max(PATIENCE - waited, REFRESH) if under_way else None)

    def _draw(self, waited: float) -> None:
        text = plain(f"holdfast: {self._step} … {waited:.0f} s")
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80  # 0: no one has set its size
        sys.stderr.write(_CLEAR + text[: max(width - 1, 1)])
        sys.stderr.flush()
        self._shown = True

    def _erase(self) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._shown = False


def of_this_process() -> StepLine | None:
    """Return a line that `printing` clears, if a person would see it."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None
    line = StepLine()
    printing.clear_line = line.clear
    return line
