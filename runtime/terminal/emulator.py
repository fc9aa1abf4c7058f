"""A terminal without a screen: the state of a terminal after some output.

pyte does most of it. Added is what pyte lacks and programs made for xterm rely on: the second screen,
private modes, scrolling and repeating, wide characters that are half overwritten; and sequences that pyte
would take for text are withheld from it. The output is the guest's and can be anything.
"""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import pyte
from pyte.screens import Char, wcwidth

# Private modes that switch to a second screen and back (xterm ctlseqs: 47, 1047, 1049).
ALTERNATE = frozenset({47, 1047, 1049})
# Private modes a redraw restores besides the second screen: application cursor keys, origin, wrap,
# blinking and visible cursor, mouse reports and their forms, focus reports, bracketed paste.
MODES = (1, 6, 7, 12, 25, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004)
INSERT = 4
# pyte numbers private modes by shifting them five bits.
SHIFT = 5
# The errors pyte raises on sequences it has no handler for or parameters it did not expect.
UNEXPECTED = (TypeError, ValueError, LookupError, AttributeError, NotImplementedError, OverflowError)
# Strings for the terminal itself (DCS, SOS, PM, APC), private sequences other than `?`, ones with
# intermediate bytes, and designations: pyte would print parts of them, or take them for others.
_FOREIGN = re.compile(
    rb"\x1b[PX^_][^\x1b\x07]*(?:\x1b\\|\x07|$)|\x1b\[[<=>][0-?]*[ -/]*[@-~]|\x1b\[[0-?]*[!\"%'*+][ -/]*[@-~]"
    rb"|\x1b[ -/][0-~]"
)
_BEGUN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x1b\x07]*\x1b?|[ -/]*)?\Z")
_LONGEST = 4096
_SUB_PARAMETERS = re.compile(rb"\x1b\[([0-9;]*:[0-9;:]*)m")
_KEYPAD = re.compile(rb"\x1b([=>])")


class _Stream(pyte.ByteStream):
    def __init__(self, screen: pyte.Screen) -> None:
        self.csi = {
            **pyte.ByteStream.csi,
            "S": "scroll_up",
            "T": "scroll_down",
            "Z": "back_tab",
            "b": "repeat",
            "s": "save_place",
            "u": "restore_place",
        }
        super().__init__(screen)


class Emulator(pyte.Screen):
    """A terminal of one size that processes output."""

    def __init__(self, rows: int, cols: int) -> None:
        super().__init__(cols, rows)
        self.first: tuple[Any, Any] | None = None
        self.keypad = False
        self._last = " "
        self._begun = b""
        self._stream = _Stream(self)

    @property
    def alternate(self) -> bool:
        """True if the second screen is shown."""
        return self.first is not None

    @property
    def unfinished(self) -> bytes:
        """The incomplete end of the output: the beginning of a sequence or a character."""
        return self._stream.utf8_decoder.getstate()[0] + self._begun

    def private(self, mode: int) -> bool:
        """Return whether a private mode is on."""
        return mode << SHIFT in self.mode

    def feed_bytes(self, output: bytes) -> None:
        """Process output; it can continue a sequence that was begun before."""
        output, self._begun = self._begun + output, b""
        if begun := _BEGUN.search(output, max(0, len(output) - _LONGEST)):
            output, self._begun = output[: begun.start()], output[begun.start() :]
        for found in _KEYPAD.finditer(output):
            self.keypad = found[1] == b"="
        if b"\x1b" in output:
            output = _SUB_PARAMETERS.sub(_plain_parameters, _FOREIGN.sub(b"", output))
        # In pieces: a sequence that pyte cannot process only loses the rest of its piece.
        for start in range(0, len(output), 1024):
            try:
                self._stream.feed(output[start : start + 1024])
            except UNEXPECTED:
                self._stream = _Stream(self)

    def cells(self, row: int) -> list[Char]:
        """Return the characters of a row; one of width two is followed by an empty one."""
        line = self.buffer[row]
        found: list[Char] = []
        column = 0
        while column < self.columns:
            char = line[column]
            wide = bool(char.data) and wcwidth(char.data[0]) == 2
            if wide and column + 1 < self.columns and not line[column + 1].data:
                found += [char, char._replace(data="")]
                column += 2
                continue
            # Half of a wide character cannot be shown.
            found.append(char._replace(data=" ") if wide or not char.data else char)
            column += 1
        return found

    # Called by pyte.

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """Switch modes on."""
        if kwargs.get("private") and self.first is None and ALTERNATE & set(modes):
            self.first = copy.deepcopy(self.buffer), copy.copy(self.cursor)
            attrs, self.cursor.attrs = self.cursor.attrs, self.default_char
            self.erase_in_display(2)
            self.cursor.attrs = attrs
            self.cursor_position()
        super().set_mode(*(m for m in modes if m != 3), **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """Switch modes off."""
        super().reset_mode(*(m for m in modes if m != 3), **kwargs)
        if kwargs.get("private") and self.first is not None and ALTERNATE & set(modes):
            hidden = self.cursor.hidden
            (self.buffer, self.cursor), self.first = self.first, None
            self.cursor.hidden = hidden

    def reset(self) -> None:
        """Reset, to the first screen."""
        super().reset()
        self.first = None
        self.keypad = False

    def draw(self, data: str) -> None:
        """Show text, without zero-width characters that do not combine."""
        if data.isascii():
            super().draw(data)
        else:
            for char in data:
                self._draw_one(char)
        self._last = data[-1:] or self._last

    def _draw_one(self, char: str) -> None:
        if wcwidth(char) > 0:
            super().draw(char)
        elif unicodedata.combining(char) and self.cursor.x:
            line = self.buffer[self.cursor.y]
            at = self.cursor.x - 1
            if not line[at].data and at:
                at -= 1
            joined = unicodedata.normalize("NFC", line[at].data + char)
            if wcwidth(joined[0]) == wcwidth(line[at].data[:1] or " ") and len(joined) < 16:
                line[at] = line[at]._replace(data=joined)

    def scroll_up(self, count: int = 1, **_: Any) -> None:
        """Move the lines of the scroll region up (SU)."""
        self._scroll(count, self.delete_lines)

    def scroll_down(self, count: int = 1, **_: Any) -> None:
        """Move the lines of the scroll region down (SD)."""
        self._scroll(count, self.insert_lines)

    def _scroll(self, count: int, move: Any) -> None:
        x, y = self.cursor.x, self.cursor.y
        self.cursor.y = self.margins.top if self.margins else 0
        move(count or 1)
        self.cursor.x, self.cursor.y = x, y

    def back_tab(self, count: int = 1, **_: Any) -> None:
        """Move to an earlier tab stop (CBT)."""
        for _unused in range(min(count or 1, self.columns)):
            self.cursor.x = max((stop for stop in self.tabstops if stop < self.cursor.x), default=0)

    def repeat(self, count: int = 1, **_: Any) -> None:
        """Show the last character again (REP)."""
        self.draw(self._last * min(count or 1, self.columns))

    def save_place(self, *_: int, **__: Any) -> None:
        """Save the cursor's position (SCOSC)."""
        self.save_cursor()

    def restore_place(self, *_: int, **__: Any) -> None:
        """Restore the saved cursor position (SCORC)."""
        self.restore_cursor()

    def report_device_attributes(self, mode: int = 0, **kwargs: Any) -> None:
        """Ignore a query to the terminal, which is answered elsewhere."""

    def report_device_status(self, mode: int = 0, **kwargs: Any) -> None:
        """Ignore a query to the terminal, which is answered elsewhere."""


def _plain_parameters(found: re.Match[bytes]) -> bytes:
    """Return SGR with colons (ISO 8613-6) in pyte's form: one underline style, colors without their space."""
    return b"\x1b[" + b";".join(_parameter(part) for part in found[1].split(b";")) + b"m"


def _parameter(part: bytes) -> bytes:
    numbers = part.split(b":")
    if len(numbers) == 1:
        return part
    if numbers[0] == b"4":
        return b"24" if numbers[1] == b"0" else b"4"
    if numbers[0] in (b"38", b"48") and numbers[1:2] == [b"2"]:
        return b";".join([numbers[0], b"2", *numbers[-3:]])
    return b";".join(numbers) if numbers[0] in (b"38", b"48") else b"0" if numbers[0] == b"0" else b""


def rows_of(terminal: Emulator) -> Iterator[str]:
    """Return the lines on a terminal's screen."""
    for row in range(terminal.lines):
        yield "".join(char.data for char in terminal.cells(row))
