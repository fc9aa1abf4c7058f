"""Output of a guest in a form safe for a person's terminal: bytes in, safe bytes out. Pure.

The result consists of text, harmless control characters, and complete control functions permitted by
`allowed_controls.py`, in canonical form. So all terminals read it the same way, however malformed the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.runtime.terminal import row_bound
from holdfast.runtime.terminal.allowed_controls import ORDINARY, Use, passed
from holdfast.runtime.terminal.row_bound import RowBound
from holdfast.runtime.terminal.vt_parser import Control, Escape, Function, Parser, Sequence, Text

# First screen, no scroll region, no mode but wrap and a visible cursor. Every redraw begins from here.
RESET = (
    b"\x1b[?1049l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?2004l\x1b[?1l\x1b[?6l\x1b[?12l\x1b[?7h\x1b[4l\x1b>\x1b[r\x1b[?25h\x1b[0m"
)
# State that a redraw leaves to the program and a shell does not expect: character sets, reverse video,
# shape of the cursor.
CHARSETS = b"\x1b(B\x1b)B\x0f"
LEAVE = RESET + CHARSETS + b"\x1b[?5l\x1b[0 q"
# In place of a full reset (RIS), which would also drop what a person can scroll back to.
CLEARED = RESET + CHARSETS + b"\x1b[?5l\x1b[H\x1b[2J"
# Below everything on the screen: where a shell can continue.
BELOW = b"\x1b[999;1H\r\n"
# The resets of the modes that would disturb a shell. The others stay until a program changes them.
_SCREENS = frozenset({"?47", "?1047", "?1049"})
_UNDONE_BY = {"?5": "\x1b[?5l", "?6": "\x1b[?6l", "?7": "\x1b[?7h", "?25": "\x1b[?25h", "4": "\x1b[4l"}
_ON_AT_FIRST = frozenset({"?7", "?25"})
_NO_STYLE = "\x1b[0m"
# RIS. Done by other means, because it also drops what a person can scroll back to.
_FULL_RESET = Escape("", "c")


class SafeOutput:
    """Filters one stream for one terminal.

    `encoding` is the terminal's: in one that is not UTF-8 the bytes of a character could be controls.
    `dropped` is called with every function that is not passed: it can be a question that can be answered.
    `bound` keeps the output above the last row.
    """

    def __init__(
        self,
        use: Use = Use.SHOW,
        encoding: str = "utf-8",
        dropped: Callable[[Function], None] | None = None,
        bound: RowBound | None = None,
    ) -> None:
        self._use = use
        self._dropped = dropped
        self._encoding = encoding
        self._bound = bound
        self._parser = Parser(row_bound.PLAIN if bound else ORDINARY)
        self._undo: dict[str, str] = {}

    def feed(self, data: bytes) -> bytes:
        """Return the output that can be shown now."""
        return self._bytes(self._shown(self._parser.feed(data)))

    def feed_text(self, text: str) -> str:
        """Do the same as `feed`, for decoded output."""
        return self._shown(self._parser.feed_text(text))

    def end(self) -> bytes:
        """Return the reset of the terminal after the last output. An unfinished sequence is dropped."""
        self._parser = Parser(ORDINARY)
        undo, self._undo = self._undo, {}
        # The screen first, because what follows belongs to it; the region moves no cursor but its own.
        first = [undo.pop(key, "") for key in ("screen", "?6", "region")]
        below = BELOW.decode() if first[1] else ""
        return self._bytes("".join([*first, below, *undo.values()]))

    def _bytes(self, text: str) -> bytes:
        return text.encode(self._encoding, "replace")

    def _shown(self, functions: Iterable[Function]) -> str:
        out: list[str] = []
        for function in functions:
            text = passed(function, self._use)
            if function == _FULL_RESET:
                text = self._bound.reset(CLEARED.decode()) if self._bound else CLEARED.decode()
                self._undo.clear()
            elif not text and self._dropped is not None:
                self._dropped(function)
            elif text:
                self._note(function, text)
                text = self._bound.kept(function, text) if self._bound else text
            out.append(text)
        return "".join(out)

    def _note(self, function: Function, text: str) -> None:
        """Remember how to undo the effects of passed output."""
        match function:
            case Control("\x0e") | Escape("(" | ")", "0"):
                self._undo["charsets"] = CHARSETS.decode()
            case Text() if "\x1b" in text:
                self._undo["style"] = _NO_STYLE  # there may be colors in it
            case Sequence() if ORDINARY.fullmatch(text):
                self._undo["style"] = _NO_STYLE
            case Sequence("", parameters, "", "r"):
                self._set("region", "\x1b7\x1b[r\x1b8", on=bool(parameters))
            case Sequence(prefix, _, "", "h" | "l"):
                on = function.final == "h"
                for mode in text[2 + len(prefix) : -1].split(";"):
                    self._mode(prefix + mode, on=on)

    def _mode(self, mode: str, *, on: bool) -> None:
        if mode in _SCREENS:
            self._set("screen", f"\x1b[{mode}l", on=on)
        elif undone := _UNDONE_BY.get(mode):
            self._set(mode, undone, on=on != (mode in _ON_AT_FIRST))

    def _set(self, key: str, undo: str, *, on: bool) -> None:
        if on:
            self._undo[key] = undo
        else:
            self._undo.pop(key, None)
