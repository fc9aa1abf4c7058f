"""Keeps the output of a guest above the last row of a terminal that has one row more than the guest's.  Pure.

The scroll region does most of that: it ends at the guest's last row, and a cursor inside it leaves it only by
an absolute position. Functions that would set the cursor below, change the region, or erase the row are
rewritten or noted. One case is left to the caller, since it needs the cursor's place: while a region of the
program's own ends higher (`split`), a line feed below it would reach the row.
"""

from __future__ import annotations

import re

from holdfast.runtime.terminal.emulator import ALTERNATE
from holdfast.runtime.terminal.vt_parser import Escape, Function, Sequence

PLAIN = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f]++|[\a-\r]|\x1b\[(?:[0-9;:]{0,64}m|[0-9]{0,4}[@A-GKLMPX]))++")
"""Text and functions that stay above the row on their own."""


class RowBound:
    """The rows of a guest, counted from the top; the terminal has one more.

    Attributes:
        erased: the row was erased, as far as is known. The caller paints it, and clears this.
        split: the program has a scroll region that ends above its last row.
        saved: the program has saved the cursor's place, so that others must not.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.erased = self.split = self.saved = False

    @property
    def region(self) -> str:
        """The function that sets the scroll region to the guest's rows. The cursor goes to the top."""
        return f"\x1b[1;{self._rows}r"

    def reset(self, cleared: str) -> str:
        """Return a full reset, as `cleared` does it, within the rows."""
        self.erased, self.split, self.saved = True, False, False
        return f"{cleared}{self.region}\x1b[H"

    def kept(self, function: Function, text: str) -> str:
        """Return a function, which is passed as this text, within the rows."""
        match function:
            case Escape("", "7") | Sequence("", _, "", "s"):
                self.saved = True
            case Sequence("", parameters, "", "H" | "f" | "d" as final):
                row, *column = parameters.split(";")
                if int(row or 1) > self._rows:
                    return f"\x1b[{';'.join([str(self._rows), *column])}{final}"
            case Sequence("", parameters, "", "e"):
                return f"\x1b[{parameters}B"  # VPR does not heed the region, CUD does
            case Sequence("", parameters, "", "r"):
                return self._margins(parameters)
            case Sequence("", _, "", "J") | Sequence("?", _, "", "J"):
                self.erased = True
            case Sequence("", "", "!", "p"):
                self.split = self.saved = False
                return text + self._again
            case Sequence("?", _, "", "h" | "l" as final):
                modes = {int(mode) for mode in text[3:-1].split(";")}
                self.saved = self.saved or (1048 in modes and final == "h")
                if modes & ALTERNATE:
                    self.erased = True
                    return text if self.split else text + self._again
        return text

    @property
    def _again(self) -> str:
        """Set the region again where terminals drop it, with the cursor where it is."""
        return f"\x1b7{self.region}\x1b8"

    def _margins(self, parameters: str) -> str:
        first, _, last = parameters.partition(";")
        top, bottom = int(first or 1) or 1, min(int(last or 0) or self._rows, self._rows)
        if top < bottom:
            self.split = bottom < self._rows
        return f"\x1b[{top};{bottom}r"
