"""Recorded terminal output as readers get it: without marks, by offset, with every gap reported."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.records.streamlog import StreamLog
from holdfast.runtime.guest.shells.marks import MAX_MARK, MarkFilter, OutputPiece

CHUNK = 256 << 10
DIGESTED = 256 << 10
"""Bytes of an output that its digest covers: the end of a command costs a millisecond at most."""
DIGITS = 8
"""Hex digits of a digest: enough to see that two outputs differ. It can confirm a guess at the output."""

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

    `until` returns the offset to end at once that is known; it is called again whenever something happens.
    `pause` is called, with the offset reached, whenever there is no more output yet; what it returns is
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
