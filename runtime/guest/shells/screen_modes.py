"""State a reader needs to draw a terminal from the end of its output, and which that end no longer shows.

A full-screen program switches to the second screen and sets modes once, then paints for hours. Kept are the
modes that are on, when the second screen was last shown, and the last place at which everything was erased.
Pure: bytes in, state out.
"""

from __future__ import annotations

import re
from typing import Any

ALTERNATE = frozenset({47, 1047, 1049})
# Application keys, origin, wrap, cursor, mouse, focus, paste: what the host's `redraw.py` can restore.
MODES = frozenset({1, 6, 7, 9, 12, 25, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004})
_DEFAULT_ON = frozenset({7, 25})
# A mode change, an erased screen, a full reset, a keypad mode. None is longer than _LONGEST.
_CHANGE = re.compile(rb"\x1b(?:\[\?([0-9;]{1,24})([hl])|\[([23])J|(c)|([=>]))")
_LONGEST = 32
_HINTS = (b"\x1b[?", b"\x1b[2J", b"\x1b[3J", b"\x1bc", b"\x1b=", b"\x1b>")


class Picture:
    """The state of one terminal."""

    def __init__(self) -> None:
        self.entered: int | None = None
        self.left: int | None = None
        self.erased = 0
        self.keypad = False
        self.modes = set(_DEFAULT_ON)
        self._tail = b""

    def describe(self) -> dict[str, Any]:
        """Return the state, for clients."""
        return {
            "entered": self.entered,
            "left": self.left,
            "erased": self.erased,
            "keypad": self.keypad,
            "modes": sorted(self.modes),
        }

    def feed(self, data: bytes, offset: int) -> None:
        """Process output that begins at an offset."""
        if self._tail:
            data, offset = self._tail + data, offset - len(self._tail)
            self._tail = b""
        last = 0
        if b"\x1b" not in data:
            return
        if any(hint in data for hint in _HINTS):
            for found in _CHANGE.finditer(data):
                last = found.end()
                self._change(found, offset + found.start(), offset + last)
        begun = data.rfind(b"\x1b", max(last, len(data) - _LONGEST))
        if begun >= 0 and not _CHANGE.match(data, begun) and _unfinished(data[begun:]):
            self._tail = data[begun:]

    def _change(self, found: re.Match[bytes], start: int, end: int) -> None:
        if found[2]:
            on = found[2] == b"h"
            for word in found[1].split(b";"):
                self._mode(int(word or 0), on, start, end)
        elif found[3]:
            self.erased = start
        elif found[4]:
            modes, self.modes = self.modes, set(_DEFAULT_ON)
            self.keypad, self.erased = False, start
            if modes and self._inside:
                self.left = end
        else:
            self.keypad = found[5] == b"="

    @property
    def _inside(self) -> bool:
        return self.entered is not None and self.left is None

    def _mode(self, mode: int, on: bool, start: int, end: int) -> None:
        if mode in ALTERNATE:
            if on and not self._inside:
                self.entered, self.left = start, None
            elif not on and self._inside:
                self.left = end
        elif mode in MODES:
            (self.modes.add if on else self.modes.discard)(mode)


def _unfinished(tail: bytes) -> bool:
    return re.fullmatch(rb"\x1b(?:\[(?:\?[0-9;]{0,24}|[23])?)?", tail) is not None
