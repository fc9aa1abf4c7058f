"""A second notice of a terminal's new size, for programs of a copy.

A restored program begins at the call it was captured in. A signal that comes before it gets there is handled
at once, and then the call begins and waits, although the signal should have ended it: an editor would show
the old size until the next key. It cannot be seen whether a program was that late, and a notice too many
only paints the same again, so everyone gets a second one as soon as all of them sleep.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from holdfast.runtime.guest.shells.process_progress import at_work
from holdfast.runtime.guest.shells.terminal import ProcessTerminal

TICK = 0.05
TRIES = 40
"""Programs that work for longer than this are not in a call that the first notice should have ended."""


def repeat(current: Callable[[], ProcessTerminal | None]) -> None:
    """Notify the foreground programs of the `current` terminal once more when they sleep, if it is still
    theirs.

    A shell that reads a line needs none: it asks for the size before the next one.
    """
    loop = asyncio.get_running_loop()
    terminal = current()
    group = terminal.foreground() if terminal else None

    def look(left: int) -> None:
        if terminal is None or current() is not terminal or terminal.foreground() != group:
            return
        if not at_work(terminal.pid):
            terminal.signal_foreground(signal.SIGWINCH)
        elif left:
            loop.call_later(TICK, look, left - 1)

    if terminal is not None and group != terminal.pid:
        loop.call_later(TICK, look, TRIES)
