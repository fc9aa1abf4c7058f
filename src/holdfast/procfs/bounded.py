"""Bounded reads of files whose size is not the reader's choice.

Owns nothing but the bound: the meaning of a file, and of more than the bound, is its reader's business.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PIECE = 1 << 16
"""Bytes of one read(2)."""


class TooLong(OSError):
    """A file is longer than the limit of a reader."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"{name} is longer than {limit} bytes")


def read(path: Path, limit: int) -> bytes:
    """Return all of a file.

    Raises:
        TooLong: it has more than `limit` bytes.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # One byte more than may be there, so that what is exactly as long passes.
        found = b"".join(pieces(descriptor, limit + 1))
    finally:
        os.close(descriptor)
    if len(found) > limit:
        raise TooLong(str(path), limit)
    return found


def text(path: Path, limit: int) -> str:
    """Return all of a file as text; bytes that are not UTF-8 become backslash escapes.

    Raises:
        TooLong: it has more than `limit` bytes.
        OSError: it cannot be read.
    """
    return read(path, limit).decode("utf-8", "backslashreplace")


def lines(path: Path, limit: int) -> Iterator[bytes]:
    """Yield a file a few complete lines at a time. One piece at a time is in memory.

    Raises:
        TooLong: it has more than `limit` bytes, or a line is longer than a piece.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        rest, total = b"", 0
        for piece in pieces(descriptor, limit + 1):
            total += len(piece)
            whole, newline, after = piece.rpartition(b"\n")
            if total > limit or len(rest) > PIECE:
                raise TooLong(str(path), limit)
            if newline:
                yield rest + whole + newline
                rest = after
            else:
                rest += after
        if rest:
            yield rest
    finally:
        os.close(descriptor)


def pieces(descriptor: int, limit: int, small: int = 0) -> Iterator[bytes]:
    """Yield the content of an open file, up to `limit` bytes.

    A read shorter than `small` is taken for the last one, without a further call.
    """
    while limit > 0 and (piece := os.read(descriptor, min(limit, PIECE))):
        limit -= len(piece)
        yield piece
        if len(piece) < small:
            return
