"""The time index of a shell's recorded output, as compact bytes.

An index is a row of segments. Each begins with its position, so that any of them can be read alone:

    | "HFT1" | time : f64 | offset : u64 | rows : u16 | columns : u16 |        big-endian

and continues with records, all numbers as LEB128 (7 bits to a byte, low ones first):

    | milliseconds since the last record << 2 | kind | bytes of output since the last record | more, by kind |

    OUTPUT  nothing more: the bytes before this offset had come by this time
    RESIZE  rows, columns
    INPUT   a length, and that much of typed text
    HIDDEN  the number of typed bytes that may not be shown

Pure code, for both sides; decoded bytes come from a guest, so they are checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

from holdfast.base.value_classes import dataclass

_HEAD = struct.Struct(">4sdQHH")
_MAGIC = b"HFT1"
HEAD_SIZE = _HEAD.size
MAX_TEXT = 1 << 16
_MAX_NUMBER = 2**63


class MomentKind(IntEnum):
    """The kind of a moment."""

    OUTPUT = 0
    RESIZE = 1
    INPUT = 2
    HIDDEN = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at a time (unix seconds), at an offset of the output."""

    kind: MomentKind
    at: float
    offset: int
    rows: int = 0
    columns: int = 0
    text: bytes = b""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """Where a segment begins."""

    at: float
    offset: int
    rows: int
    columns: int


class Malformed(ValueError):
    """These bytes are not a valid index."""


class Encoder:
    """Writes one segment."""

    def __init__(self, start: Start) -> None:
        self._at = int(start.at * 1000)
        self._offset = start.offset
        self.head = _HEAD.pack(_MAGIC, self._at / 1000, start.offset, start.rows, start.columns)

    def encode(self, moment: Moment) -> bytes:
        """Return the record of a moment. If the clock runs backward, recorded time does not advance."""
        at = max(int(moment.at * 1000), self._at)
        head = _number((at - self._at) << 2 | moment.kind) + _number(moment.offset - self._offset)
        self._at, self._offset = at, moment.offset
        match moment.kind:
            case MomentKind.OUTPUT:
                return head
            case MomentKind.RESIZE:
                return head + _number(moment.rows) + _number(moment.columns)
            case MomentKind.INPUT:
                text = moment.text[:MAX_TEXT]
                return head + _number(len(text)) + text
            case _:
                return head + _number(moment.size)


def start_of(segment: bytes) -> Start:
    """Return where a segment begins.

    Raises:
        Malformed: the bytes are not a valid index.
    """
    if len(segment) < HEAD_SIZE:
        raise Malformed("the index is truncated")
    magic, at, offset, rows, columns = _HEAD.unpack_from(segment)
    if magic != _MAGIC or not 0 <= at < 1e11 or not rows or not columns:
        raise Malformed("the index lacks a valid header")
    return Start(at, offset, rows, columns)


def decode(segment: bytes) -> Iterator[Moment]:
    """Yield the moments of a segment. A record that is cut off at the end is left out. Raises Malformed."""
    start = start_of(segment)
    at, offset, position = int(start.at * 1000), start.offset, HEAD_SIZE
    while position < len(segment):
        try:
            first, position = _read(segment, position)
            step, position = _read(segment, position)
            kind = MomentKind(first & 3)
            at, offset = at + (first >> 2), offset + step
            moment, position = _rest(kind, at / 1000, offset, segment, position)
        except IndexError:
            return
        yield moment


def _rest(kind: MomentKind, at: float, offset: int, data: bytes, position: int) -> tuple[Moment, int]:
    if kind is MomentKind.OUTPUT:
        return Moment(kind, at, offset), position
    first, position = _read(data, position)
    if kind is MomentKind.HIDDEN:
        return Moment(kind, at, offset, size=first), position
    if kind is MomentKind.INPUT:
        text = data[position : position + first]
        if len(text) < first:
            raise IndexError
        return Moment(kind, at, offset, text=text, size=first), position + first
    second, position = _read(data, position)
    if not (0 < first <= 0xFFFF and 0 < second <= 0xFFFF):
        raise Malformed("the index has a terminal without a size")
    return Moment(kind, at, offset, rows=first, columns=second), position


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= _MAX_NUMBER:
                raise Malformed("the index has a number that is too large")
            return value, position
        shift += 7
        if shift > 63:
            raise Malformed("the index has a number that is too large")
