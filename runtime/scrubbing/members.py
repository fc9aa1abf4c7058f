"""The file of a tar archive at an offset, determined while the archive passes. Pure.

Only used to name a place: malformed members do not have a name, and nothing in the archive is trusted.
Names are read in the forms of ustar, GNU tar's long names, and pax.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

BLOCK = 512
MOST_NAME = 64 << 10
_MOST_KEPT = 40_000
_BACK = 16 << 20
"""Bytes before the end of the passed data for which names are kept."""
_LONG, _PAX = b"L", b"x"
_BESIDES = (b"K", b"g")
_EMPTY = (b"1", b"2", b"3", b"4", b"5", b"6")
"""Kinds of members without content, whatever size they state: links, devices, folders."""


class Members:
    """The files of one archive; `met` is called with the path of each, which begins with a slash."""

    def __init__(self, met: Callable[[str], None] = lambda _path: None) -> None:
        self._met = met
        self._at = 0
        self._skip = 0
        self._head = b""
        self._kind = b""
        self._taken = bytearray()
        self._size: int | None = None
        self._long = ""
        self._starts: list[int] = []
        self._names: list[str] = []

    def feed(self, data: bytes) -> None:
        """Process the next bytes."""
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                if self._kind and len(self._taken) < MOST_NAME:
                    self._taken += data[at : at + min(step, MOST_NAME)]
                self._skip -= step
                at += step
                if not self._skip and self._kind:
                    self._described()
                continue
            step = min(BLOCK - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == BLOCK:
                self._header(self._head, self._at + at)
                self._head = b""
        self._at += len(data)

    def name_at(self, offset: int) -> str:
        """Return the path of the file that has this byte; a question mark if it is unknown."""
        found = bisect_right(self._starts, offset) - 1
        return self._names[found] if found >= 0 else "?"

    def _header(self, head: bytes, start: int) -> None:
        if not head[0]:
            return
        kind, size = head[156:157], _number(head[124:136])
        if kind in (_LONG, _PAX):
            self._kind, self._taken, self._size = kind if size else b"", bytearray(), size or None
            self._skip = _padded(size)
            return
        if kind in _BESIDES:
            self._skip = _padded(size)
            return
        size = size if self._size is None else self._size
        name = self._long or _ustar_name(head)
        self._long, self._size = "", None
        self._skip = 0 if kind in _EMPTY else _padded(size)
        path = "/" + name.strip("/").removeprefix("./")
        self._starts.append(start - BLOCK)
        self._names.append(path)
        if size:
            self._met(path)
        if len(self._starts) > _MOST_KEPT:
            gone = bisect_right(self._starts, start - _BACK)
            del self._starts[:gone], self._names[:gone]

    def _described(self) -> None:
        """Process the complete name or size of the next member."""
        size = self._size or 0
        text = bytes(self._taken[:size])
        if self._kind == _LONG:
            self._long = text.rstrip(b"\0").decode("utf-8", "surrogateescape")
            self._size = None
        else:
            headers = _pax(text)
            self._long = headers.get(b"path", b"").decode("utf-8", "surrogateescape") or self._long
            digits = headers.get(b"size", b"")
            self._size = int(digits) if digits.isdigit() and len(digits) < 20 else None
        self._kind = b""


def _ustar_name(head: bytes) -> str:
    name = head[:100].partition(b"\0")[0]
    prefix = head[345:500].partition(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    """Return a size as tar writes it: octal, or GNU's base 256."""
    if field[0] & 0x80:
        return int.from_bytes(field[4:], "big")
    digits = field.strip(b"\0 ")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else 0


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _pax(text: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    while text:
        length, blank, _ = text.partition(b" ")
        if not blank or not length.isdigit() or len(length) > 8 or not len(length) < int(length) <= len(text):
            break
        record, text = text[len(length) + 1 : int(length)], text[int(length) :]
        key, _, value = record.partition(b"=")
        found[key] = value.removesuffix(b"\n")
    return found
