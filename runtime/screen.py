"""What a terminal shows after some output.

The output is the guest's and may be anything; the screen that comes out is text without control characters.
"""

from __future__ import annotations

import copy
from typing import Any

import pyte

from holdfast.runtime.results import Screen
from holdfast.runtime.text import lines, plain

# Private modes that switch to a second screen and back (xterm ctlseqs: 47, 1047, 1049). pyte numbers private
# modes by shifting them five bits.
ALTERNATE = frozenset(mode << 5 for mode in (47, 1047, 1049))
# What pyte raises on sequences it has no handler for or parameters it did not expect.
UNEXPECTED = (TypeError, ValueError, IndexError, KeyError, AttributeError, NotImplementedError, OverflowError)


class _Terminal(pyte.Screen):
    """pyte's screen with the alternate screen that full-screen programs use."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines)
        self._first: tuple[Any, Any] | None = None

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """Switch modes on."""
        if kwargs.get("private") and self._first is None and ALTERNATE & {mode << 5 for mode in modes}:
            self._first = copy.deepcopy(self.buffer), copy.copy(self.cursor)
            self.erase_in_display(2)
            self.cursor_position()
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """Switch modes off."""
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and self._first is not None and ALTERNATE & {mode << 5 for mode in modes}:
            (self.buffer, self.cursor), self._first = self._first, None

    def report_device_attributes(self, mode: int = 0, **kwargs: Any) -> None:
        """A question to the terminal: somebody else's to answer."""

    def report_device_status(self, mode: int, **kwargs: Any) -> None:
        """A question to the terminal: somebody else's to answer."""


def render(output: bytes, rows: int, cols: int) -> Screen:
    """The screen of a terminal of this size after this output, which may begin anywhere."""
    terminal = _Terminal(cols, rows)
    stream = pyte.ByteStream(terminal)
    # In pieces: a sequence that pyte cannot digest loses the rest of its piece only.
    for start in range(0, len(output), 4096):
        try:
            stream.feed(output[start : start + 4096])
        except UNEXPECTED:
            stream = pyte.ByteStream(terminal)
    text = "\n".join(lines(line).rstrip() for line in terminal.display).rstrip("\n")
    cursor = (min(terminal.cursor.y, rows - 1), min(terminal.cursor.x, cols - 1))
    return Screen(text=text, rows=rows, cols=cols, cursor=cursor, title=plain(terminal.title, 200))
