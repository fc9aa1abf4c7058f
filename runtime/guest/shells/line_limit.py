"""The part of typed text that a terminal would cut.  Pure.

A terminal that reads lines (termios ICANON) has room for 4096 bytes of one, its end included; of a longer
line it drops the rest and says nothing (Linux, n_tty.c).  A program that reads keys gets all there is.
"""

from __future__ import annotations

import re

LONGEST = 4095
"""Bytes of a line without its end."""
_PASTE = b"\x1b[200~"


class LineLimit:
    """Counts the bytes of the current line typed into one terminal."""

    def __init__(self) -> None:
        self._begun = 0

    def excess(self, data: bytes, ends: bytes, *, begun: bool = True) -> int:
        """Return the length of the line that the terminal would cut, or 0.

        `ends` are the characters that end or discard a line, empty if it reads keys. `begun`: what was typed
        before belongs to the first of these lines.
        """
        if not ends:
            return 0
        lines = re.split(b"[" + re.escape(ends) + b"]", data)
        sizes = [len(line) for line in lines]
        sizes[0] += self._begun if begun else 0
        longest = max(sizes)
        return longest if longest > LONGEST else 0

    def later_excess(self, data: bytes) -> int:
        """Return the same for the input after the line a prompt takes: its command may read lines."""
        if data.startswith(_PASTE):
            return 0
        first = re.search(rb"[\r\n]", data)
        return self.excess(data[first.end() :], b"\r\n", begun=False) if first else 0

    def typed(self, data: bytes, ends: bytes) -> None:
        """Count typed bytes."""
        rest = re.split(b"[" + re.escape(ends) + b"]", data)[1:] if ends else [b""]
        self._begun = len(rest[-1]) if rest else self._begun + len(data)


def refusal(size: int) -> str:
    """Return the message that refuses a line of that size."""
    return (
        f"cannot type it: one of its lines has {size} bytes, and a terminal that reads lines takes {LONGEST} "
        "of one and drops the rest"
    )
