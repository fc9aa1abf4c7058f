"""Output as the text a terminal would finally show, including lines scrolled off its top. Pure.

Most output is text and colors already; only output that moves the cursor is drawn. The result contains no
control characters except newlines and tabs.
"""

from __future__ import annotations

import re
from typing import Any

from holdfast.base.text import lines
from holdfast.runtime.terminal.emulator import Emulator

DRAWN = 256 << 10
"""Bytes of output that are drawn, from its end; the emulator takes seconds for a megabyte."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_MOVES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain_text(output: bytes, rows: int, cols: int) -> str:
    """Return the final text on a terminal of that size after this output, which began in its first column."""
    text = output.decode("utf-8", "replace")
    if not _MOVES.search(without := _COLOUR.sub("", text)):
        return without
    terminal = _Scroll(rows, cols)
    terminal.feed_bytes(output[-DRAWN:].replace(b"\n", b"\r\n"))
    return terminal.text() + "\n" * output.endswith(b"\n")


class _Scroll(Emulator):
    """A terminal that keeps lines that leave its first screen at the top, and knows which rows form one
    line."""

    def __init__(self, rows: int, cols: int) -> None:
        self._gone: list[tuple[str, bool]] = []
        self._drawing = False
        super().__init__(rows, cols)

    def text(self) -> str:
        """Return all of the text, with wrapped lines joined again."""
        if self.alternate:  # whether or not the program has ended: what it drew there is not output
            self.reset_mode(1049, private=True)
        shown = [*self._gone, *(self._row(row) for row in range(self.lines))]
        parts = [text if goes_on else text.rstrip() + "\n" for text, goes_on in shown]
        return "".join(parts).rstrip("\n")

    def draw(self, data: str) -> None:
        """Show text."""
        self._drawing = True
        super().draw(data)
        self._drawing = False

    def linefeed(self) -> None:
        """Begin the next line, which continues a wrapped one."""
        line: Any = self.buffer[self.cursor.y]
        line.goes_on = self._drawing
        super().linefeed()

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Erase; an erased line does not continue."""
        line: Any = self.buffer[self.cursor.y]
        line.goes_on = False
        super().erase_in_line(how, private)

    def index(self) -> None:
        """Move down, and keep the line that leaves."""
        top = self.margins.top if self.margins else 0
        bottom = self.margins.bottom if self.margins else self.lines - 1
        if self.cursor.y == bottom and top == 0 and not self.alternate:
            self._gone.append(self._row(0))
        super().index()

    def _row(self, row: int) -> tuple[str, bool]:
        line: Any = self.buffer[row]
        full = line[self.columns - 1].data != " "
        return lines("".join(char.data for char in self.cells(row))), full and getattr(line, "goes_on", False)
