"""Queries of programs to their terminal, and the answers `attach` gives in its place.  Pure.

A terminal's own answers arrive as typed input, for any program that reads by then, and reveal the person's
machine to a guest. These reveal nothing: apart from the cursor position they are the same for everyone.
Queries for more (colors, capabilities) stay unanswered, as on older terminals.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.runtime.terminal.vt_parser import Function, Sequence

# DA1: a VT220 with ANSI colors. Programs also send it after other queries, to see those unanswered.
DEVICE = b"\x1b[?62;22c"
# DA2: xterm, patch 277, the first one whose mouse reports in SGR form Vim relies on.
VERSION = b"\x1b[>41;277;0c"
# DSR 5: no malfunction.
READY = b"\x1b[0n"

Place = Callable[[], tuple[int, int]]


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
