"""The marks that the shell writes into its terminal, extracted from the terminal's bytes.

A mark is an OSC 133 sequence with the shell's nonce and a number that only grows:

    ESC ] 133 ; kind [; status] ; hf=NONCE ; n=NUMBER [; x=SERIAL] [; t=MICROSECONDS] BEL

`images/session/bash_marks.c` writes them and says what the kinds mean. Pure code: bytes in, marks out.
"""

from __future__ import annotations

import re
from enum import StrEnum

from holdfast.base.value_classes import dataclass, field

MAX_MARK = 200
"""No mark is longer, so a longer tail without an end is output."""
_START = b"\x1b]133;"


class MarkKind(StrEnum):
    """The meaning of a mark."""

    PROMPT = "A"
    READY = "B"
    ACCEPTED = "C"
    DONE = "D"
    EXECUTED = "E"
    MORE = "S"


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark and its position in the stream. `at` is its time in Unix seconds, if it carries one."""

    kind: MarkKind
    start: int
    end: int
    status: int = 0
    serial: int = 0
    number: int = field(default=0, compare=False)
    at: float | None = None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """Output without marks. `next` is the offset after it and after the marks that follow it."""

    offset: int
    data: bytes
    next: int


class MarkReader:
    """Finds marks in a stream that comes in chunks. Imitations and repetitions are output."""

    def __init__(self, nonce: str, offset: int = 0, number: int = -1) -> None:
        """Begin at an offset of the stream, after the mark of that number."""
        self._pattern = _pattern(nonce)
        self._offset = offset
        self._tail = b""
        self.number = number
        """The number of the last mark."""

    def feed(self, data: bytes) -> list[Mark]:
        """Process the next bytes of the stream and return the marks they complete."""
        base = self._offset - len(self._tail)
        self._offset += len(data)
        if self._tail:
            data = self._tail + data
        found, last = [], 0
        if _START in data:
            for match in self._pattern.finditer(data):
                last = match.end()
                number = int(match[3])
                if number > self.number:
                    self.number = number
                    found.append(_mark(match, base))
        self._tail = data[unfinished(data, last) :]
        return found


class MarkFilter:
    """Removes a shell's marks from recorded output, including repetitions: no reader wants to see them."""

    def __init__(self, nonce: str) -> None:
        self._pattern = _pattern(nonce)

    def pieces(self, data: bytes, offset: int, start: int, *, final: bool) -> tuple[list[OutputPiece], int]:
        """Cut recorded bytes into pieces without marks.

        `data` begins at `offset`, up to MAX_MARK bytes before `start`, where the reader wants to begin, so
        that a mark that begins before `start` is recognized. Returns the pieces and the offset to continue
        from; unless `final`, a tail that may be the beginning of a mark is left for the next call.
        """
        if _START not in data:
            marks: list[tuple[int, int]] = []
        else:
            marks = [match.span() for match in self._pattern.finditer(data)]
        stop = len(data) if final else unfinished(data, marks[-1][1] if marks else 0)
        return _between(data, offset, start, marks, stop)


def unfinished(data: bytes, after: int = 0) -> int:
    """Return where a mark begins that the end of data cuts off, or the length of data."""
    at = data.rfind(b"\x1b", max(after, len(data) - MAX_MARK))
    if at < 0:
        return len(data)
    tail = data[at:]
    return at if tail.startswith(_START[: len(tail)]) and b"\a" not in tail else len(data)


def _between(
    data: bytes, offset: int, start: int, marks: list[tuple[int, int]], stop: int
) -> tuple[list[OutputPiece], int]:
    pieces: list[OutputPiece] = []
    at = start - offset
    for first, last in [*marks, (stop, stop)]:
        if last <= at and first < stop:
            continue
        if first > at:
            pieces.append(OutputPiece(offset + at, data[at:first], offset + last))
        elif pieces and last > at:
            previous = pieces.pop()
            pieces.append(OutputPiece(previous.offset, previous.data, offset + last))
        at = max(at, last)
    return pieces, offset + at


def _pattern(nonce: str) -> re.Pattern[bytes]:
    word = re.escape(nonce.encode())
    return re.compile(
        rb"\x1b\]133;([ABCDES])(?:;(\d{1,3}))?;hf="
        + word
        + rb";n=(\d{1,20})(?:;x=(\d{1,20}))?(?:;t=(\d{1,17}))?\a",
        re.IGNORECASE,  # `stty olcuc` makes the terminal write capital letters
    )


def _mark(match: re.Match[bytes], base: int) -> Mark:
    return Mark(
        kind=MarkKind(match[1].decode().upper()),
        start=base + match.start(),
        end=base + match.end(),
        status=int(match[2] or 0),
        serial=int(match[4] or 0),
        number=int(match[3]),
        at=int(match[5]) / 1e6 if match[5] else None,
    )
