"""Recorded terminal output as readers get it: without marks, by offset, with every gap reported.

Keeps also what a reader needs to draw a terminal from the end of its output, and that end no longer shows. A
full-screen program switches to the second screen and sets modes once, then paints for hours: kept are the
modes that are on, when the second screen was last shown, and the last place at which everything was erased.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.shells.marks import MAX_MARK, MarkFilter, OutputPiece

CHUNK = 256 << 10
DIGESTED = 256 << 10
"""Bytes of an output that its digest covers: the end of a command costs a millisecond at most."""
DIGITS = 8
"""Hex digits of a digest: enough to see that two outputs differ. It can confirm a guess at the output."""
ALTERNATE = frozenset({47, 1047, 1049})
# Application keys, origin, wrap, cursor, mouse, focus, paste: what the host's `redraw.py` can restore.
MODES = frozenset({1, 6, 7, 9, 12, 25, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004})
_DEFAULT_ON = frozenset({7, 25})
# A mode change, an erased screen, a full reset, a keypad mode. None is longer than _LONGEST.
_CHANGE = re.compile(rb"\x1b(?:\[\?([0-9;]{1,24})([hl])|\[([23])J|(c)|([=>]))")
_LONGEST = 32
_HINTS = (b"\x1b[?", b"\x1b[2J", b"\x1b[3J", b"\x1bc", b"\x1b=", b"\x1b>")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OutputGap:
    """Output that is no longer kept."""

    offset: int
    size: int


def no_pause(_offset: int) -> None:
    """Yield nothing between two pieces of output."""


async def visible(
    log: StreamLog,
    marks: MarkFilter,
    start: int,
    until: Callable[[], int | None],
    pause: Callable[[int], T | None] = no_pause,
) -> AsyncIterator[OutputPiece | OutputGap | T]:
    """Yield the output from `start` on.

    `until` returns the offset to end at, as soon as that is known; it is called again whenever something
    happens. `pause` is called, with the offset reached, whenever there is no more output yet; its result is
    yielded.
    """
    at = start
    while True:
        limit = until()
        if at < log.start:
            gap = OutputGap(at, log.start - at if limit is None else min(log.start, limit) - at)
            if gap.size > 0:
                at += gap.size
                yield gap
        if limit is not None and at >= limit:
            return
        pieces, following = _cut(log, marks, at, limit)
        for piece in pieces:
            yield piece
        if following == at:
            said = pause(at)
            if said is not None:
                yield said
            else:
                await log.more()
        at = following


def digest(log: StreamLog, marks: MarkFilter, start: int, end: int) -> str | None:
    """Return a short digest of the first `DIGESTED` bytes of an output; None if it is no longer kept."""
    if start < log.start or end < start:
        return None
    base, stop = max(log.start, start - MAX_MARK), min(end, start + DIGESTED)
    pieces, _ = marks.pieces(log.read(base, stop - base), base, start, final=stop == end)
    return hashlib.sha256(b"".join(piece.data for piece in pieces)).hexdigest()[:DIGITS]


def _cut(log: StreamLog, marks: MarkFilter, at: int, limit: int | None) -> tuple[list[OutputPiece], int]:
    top = log.end if limit is None else min(limit, log.end)
    if at < log.start or at >= top:
        return [], at
    base = max(log.start, at - MAX_MARK)
    data = log.read(base, min(top - base, CHUNK))
    final = limit is not None and base + len(data) >= limit
    return marks.pieces(data, base, at, final=final)


class ScreenModes:
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
