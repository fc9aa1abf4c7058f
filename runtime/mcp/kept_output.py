"""The output of a command as an agent is shown it: both ends of it, or the lines from one on.  Pure.

It takes an output of any length as it comes, and keeps what an answer can show. Lines are counted from the
beginning of the output, in the same way for what `run` shows and for what `read` gives.
"""

from __future__ import annotations

from holdfast.runtime.mcp.short_text import MOST_LINES, Shown, both_ends, clean, cut, lines_of, part, shorten
from holdfast.runtime.mcp.short_text import from_line as shown_from
from holdfast.runtime.terminal.scroll import DRAWN, plain_text
from holdfast.runtime.terminal.uncook import Tail

WHOLE = DRAWN
"""Bytes of an output that is drawn as a terminal shows it; of a longer one each line is cleaned by itself."""
PIECE = 256 << 10
"""Bytes that are kept of a longer one: of its beginning, of its end, and from the wanted line on."""


class KeptOutput:
    """What is kept of one output.

    Args:
        wanted: the line from which on lines are asked for, counted from 1.
        before: the lines of the output that were passed on earlier, and are not fed again; None if unknown.
    """

    def __init__(self, *, wanted: int = 1, before: int | None = 0) -> None:
        self.wanted = wanted
        self._before = before
        self._begin = bytearray()
        self._around = bytearray()
        self._end = Tail(PIECE)
        self._size = 0
        self._newlines = 0

    @property
    def lines(self) -> int | None:
        """The whole lines of the output up to now, if their number is known."""
        return None if self._before is None else self._before + self._newlines

    def feed(self, data: bytes) -> None:
        """Take more of the output."""
        self._size += len(data)
        if (room := WHOLE - len(self._begin)) > 0:
            self._begin += data[:room]
        if (room := PIECE - len(self._around)) > 0:
            at = 0 if self._around else _after(data, self.wanted - 1 - self._newlines)
            if at is not None:
                self._around += data[at : at + room]
        self._end.feed(data)
        self._newlines += data.count(b"\n")

    def both_ends(self, rows: int, cols: int) -> Shown:
        """Return the beginning and the end, of what was fed; a terminal of that size showed it."""
        if self._size <= WHOLE:
            return shorten(plain_text(bytes(self._begin), rows, cols), before=self._before)
        last, count = self._last_lines()
        return both_ends(_first_lines(bytes(self._begin)), last, count, before=self._before)

    def from_line(self, first: int, rows: int, cols: int) -> Shown | None:
        """Return lines from number `first` on, which is `wanted`, or counts from the end if it is negative.

        None: a line that far from the end is not kept; `line_number` is what is to be `wanted`.
        """
        if self._size <= WHOLE:
            return part(plain_text(bytes(self._begin), rows, cols), first)
        last, count = self._last_lines()
        if first < 0:
            return None if -first > len(last) else shown_from(last[first:], count + first, count)
        around = bytes(self._around)
        if self.wanted > count:
            return shown_from([], count, count)
        whole = _first_lines(around) if len(around) == PIECE else lines_of(clean(around))
        return shown_from(whole, self.wanted - 1, count)

    def line_number(self, first: int) -> int:
        """Return the number from the beginning of a line that is counted from the end."""
        return max(1, self._last_lines()[1] + first + 1)

    def _last_lines(self) -> tuple[list[str], int]:
        """Return the last whole lines of a long output, and how many lines it has."""
        text = clean(self._end.value())
        last = lines_of(text.partition("\n")[2])
        whole = text.count("\n") + 1 - text.endswith("\n")
        blank = max(0, whole - 1 - len(last)) if "\n" in text else 0
        return last, self._newlines + (not text.endswith("\n")) - blank


def _first_lines(data: bytes) -> list[str]:
    """Return the first lines of data that was cut at its end, where a line may be cut."""
    text = clean(data)
    lines = [cut(line) for line in text.split("\n", 2 * MOST_LINES)[: 2 * MOST_LINES]]
    if text.count("\n") < len(lines):
        lines[-1] = f"{lines[-1].partition('… (')[0]}… (this line is longer)"
    return lines


def _after(data: bytes, newlines: int) -> int | None:
    """Return where a line begins that has this number of newlines before it; None if it is elsewhere."""
    at = 0
    for _ in range(newlines):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return None
    return at if newlines >= 0 else None
