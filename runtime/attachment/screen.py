"""The screen of a terminal after some output, as text without control characters."""

from __future__ import annotations

from holdfast.base.text import lines, plain
from holdfast.runtime.guest_rpc.results import Screen
from holdfast.runtime.terminal.emulator import Emulator, rows_of


def render(output: bytes, rows: int, cols: int) -> Screen:
    """Return the screen of a terminal of this size after this output, which may begin anywhere."""
    terminal = Emulator(rows, cols)
    terminal.feed_bytes(output)
    return shown(terminal)


def shown(terminal: Emulator) -> Screen:
    """Return the screen of a terminal."""
    rows, cols = terminal.lines, terminal.columns
    text = "\n".join(lines(line).rstrip() for line in rows_of(terminal)).rstrip("\n")
    cursor = (min(terminal.cursor.y, rows - 1), min(terminal.cursor.x, cols - 1))
    return Screen(text=text, rows=rows, cols=cols, cursor=cursor, title=plain(terminal.title, 200))
