"""The control functions of a guest that can reach a person's terminal, and the answers to its queries.
Pure.

Only what is on these lists is passed. Left out, and why:

- functions that make a terminal send something, which its shell would take for typed input: reports of
  its state, its cursor, its colors, its title, its contents (DSR, DA, DECRQM, DECRQSS, DECRQCRA, XTWINOPS,
  OSC queries …);
- all strings: clipboard (OSC 52), titles, palette, notifications, file transfer, graphics, programmable keys.
  Also hyperlinks (OSC 8): a link may show one address and open another, even a file;
- functions that drop the lines a person can scroll back to: they were there before the guest (ED 3, RIS);
- changes of the terminal that are not undone: size and place of its window, fonts, levels of conformance,
  8-bit answers, locked keyboards, forms of keys (modifyOtherKeys, kitty), printing, saved modes;
- characters that change the direction of writing, or end a line unseen: a person reads something else than is
  there (https://trojansource.codes). Joiners stay, which emoji and Persian need.

A terminal's own answers would reveal the person's machine to a guest, and arrive as input for any program
that reads by then. So `attach` gives the answers in its place. These reveal nothing: except for the cursor
position they are the same for everyone. Queries for more (colors, capabilities) stay unanswered, as on
older terminals.

Reference: xterm's ctlseqs (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html), ECMA-48.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from holdfast.runtime.terminal.vt_parser import Control, Escape, Function, Sequence, Text

# DA1: a VT220 with ANSI colors. Programs also send it after other queries, to see those unanswered.
DEVICE = b"\x1b[?62;22c"
# DA2: xterm, patch 277, the first one whose mouse reports in SGR form Vim relies on.
VERSION = b"\x1b[>41;277;0c"
# DSR 5: no malfunction.
READY = b"\x1b[0n"

Place = Callable[[], tuple[int, int]]


class Use(Enum):
    """The use of a terminal: display only, or also typing into the displayed session."""

    SHOW = "show"
    ATTACH = "attach"


# Bell, backspace, tab, line feeds, carriage return, shifts to and from the second character set.
CONTROLS = frozenset("\a\b\t\n\v\f\r\x0e\x0f")
# After ESC: save and restore the cursor, index, next line, set a tab stop, reverse index.
ESCAPES = frozenset("78DEHM")
# Application and numeric keypad.
KEYPAD = frozenset("=>")
# ASCII and line drawing, as first or second character set.
CHARSETS = frozenset({("(", "B"), ("(", "0"), (")", "B"), (")", "0")})
# Control sequences of numbers: cursor, insert, delete, erase, scroll, repeat, tabs.
NUMBERED = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefg")
# Insert mode. Of the others one locks the keyboard, one changes what Enter sends.
ANSI_MODES = frozenset({4})
# Reverse video, origin, wrap, blinking and visible cursor, second screen.
SHOWN_MODES = frozenset({5, 6, 7, 12, 25, 47, 1047, 1048, 1049})
# Cursor keys, mouse and its reports, focus, bracketed paste: useful only for typing into the program. They
# make the terminal send what its own shell would read as input.
TYPED_MODES = frozenset({1, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004})
# No terminal is larger. Repeating or scrolling by more than that only costs time.
GREATEST = 9999

# Most output consists of this: text, and functions that are always passed unchanged.
ORDINARY = re.compile(
    r"(?:[^\x00-\x1f\x7f-\x9f]++|[\a-\r]"
    r"|\x1b\[(?:[0-9;:]{0,64}m|[0-9]{0,4}(?:[@-GKLMPXd]|;[0-9]{0,4}H|H)|[0-2]?J))++"
)
_REVERSING = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_NUMBERS = re.compile(r"[0-9]*(?:;[0-9]*)*\Z")
_STYLES = re.compile(r"[0-9;:]*\Z")


def passed(function: Function, use: Use) -> str:
    """Return the function in the form permitted for a terminal, its 7-bit form; empty if it is not
    permitted."""
    if isinstance(function, Text):
        text = function.text
        return text if text.isascii() else _REVERSING.sub("", text)
    if isinstance(function, Control):
        return function.char if function.char in CONTROLS else ""
    return _escape(function, use) if isinstance(function, Escape) else _sequence(function, use)


def _escape(function: Escape, use: Use) -> str:
    intermediates, final = function.intermediates, function.final
    good = (
        (final in ESCAPES or (final in KEYPAD and use is Use.ATTACH))
        if not intermediates
        else (intermediates, final) in CHARSETS
    )
    return f"\x1b{intermediates}{final}" if good else ""


def _sequence(function: Sequence, use: Use) -> str:
    parameters, final = function.parameters, function.final
    match function.prefix, function.intermediates:
        case "", "" if final == "m":
            return f"\x1b[{parameters}m" if _STYLES.match(parameters) else ""
        case "", "" if _NUMBERS.match(parameters):
            return _numbered(parameters, final)
        case "?", "" if _NUMBERS.match(parameters):
            return _private(parameters, final, use)
        case "", "!" if final == "p" and not parameters:
            return "\x1b[!p"  # soft reset
        case "", " " if final == "q" and use is Use.ATTACH and re.fullmatch("[0-6]?", parameters):
            return f"\x1b[{parameters} q"  # shape of the cursor
    return ""


def _numbered(parameters: str, final: str) -> str:
    values = parameters.split(";")
    if final in "hl":
        return _modes("", final, parameters, ANSI_MODES)
    if final == "J" and parameters not in ("", "0", "1", "2"):
        return ""
    # With more parameters SD is a mouse query (xterm, highlight tracking), and SCOSC sets margins.
    most = {"H": 2, "f": 2, "r": 2, "s": 0, "u": 0}.get(final, 1 if final in NUMBERED else -1)
    if len(values) > max(most, 1) or (most == 0 and parameters) or most < 0:
        return ""
    bounded = (value if len(value) < 5 else str(min(int(value), GREATEST)) for value in values)
    return f"\x1b[{';'.join(bounded)}{final}"


def _private(parameters: str, final: str, use: Use) -> str:
    if final in "hl":
        known = SHOWN_MODES | TYPED_MODES if use is Use.ATTACH else SHOWN_MODES
        return _modes("?", final, parameters, known)
    if final in "JK" and parameters in ("", "0", "1", "2"):
        return f"\x1b[?{parameters}{final}"  # selective erase
    return "\x1b[?5W" if final == "W" and parameters == "5" else ""  # tab stops at every eighth column


def _modes(prefix: str, final: str, parameters: str, known: frozenset[int]) -> str:
    """Judge each mode on its own: an allowed one must not bring in forbidden ones."""
    good = [value for value in parameters.split(";") if 0 < len(value) < 6 and int(value) in known]
    return f"\x1b[{prefix}{';'.join(good)}{final}" if good else ""


def answer(function: Function, cursor: Place) -> bytes:
    """Return the answer to a function, empty if it is not a query or stays unanswered.

    `cursor` gives its row and column, from 0; it is called only for a query of the cursor (DSR 6, CPR).
    """
    match function:
        case Sequence("", "" | "0", "", "c"):
            return DEVICE
        case Sequence(">", "" | "0", "", "c"):
            return VERSION
        case Sequence("", "5", "", "n"):
            return READY
        case Sequence("", "6", "", "n"):
            row, column = cursor()
            return b"\x1b[%d;%dR" % (row + 1, column + 1)
    return b""


def is_question(function: Function) -> bool:
    """Return whether a function has an answer."""
    return bool(answer(function, lambda: (0, 0)))
