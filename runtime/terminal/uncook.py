"""Output of a terminal as the program wrote it. Pure.

A terminal in its usual mode writes every newline as carriage return and newline (ONLCR).  Taking each such
pair back to a newline is the exact inverse, also for a program that writes pairs itself: they arrive as
CR CR LF.
"""

from __future__ import annotations

from collections import deque

PIECE = 1 << 16
"""Bytes dropped at a time; smaller pieces would take more memory each than they have bytes."""


class Uncook:
    """Undoes ONLCR in a stream, however it is cut into pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Process more of the stream; a carriage return at its end waits for the next piece."""
        data = self._held + data
        self._held = b"\r" if data.endswith(b"\r") else b""
        return data[: len(data) - len(self._held)].replace(b"\r\n", b"\n")

    @property
    def held(self) -> int:
        """The bytes that are held back."""
        return len(self._held)

    def end(self) -> bytes:
        """Return the held-back bytes at the end of the stream."""
        held, self._held = self._held, b""
        return held


class AsItIs:
    """Leaves a stream unchanged."""

    held = 0

    def feed(self, data: bytes) -> bytes:
        """Return the data unchanged."""
        return data

    def end(self) -> bytes:
        """Return nothing: no data are held back."""
        return b""


class Tail:
    """The end of a stream, at most `limit` bytes of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._pieces: deque[bytes] = deque()
        self._newest = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Process more of the stream."""
        self._size += len(data)
        self._newest += data
        if len(self._newest) >= PIECE:
            self._pieces.append(bytes(self._newest))
            self._newest.clear()
        while self._pieces and self._size - len(self._pieces[0]) >= self.limit:
            self._drop(len(self._pieces.popleft()))

    def value(self) -> bytes:
        """Return the kept bytes."""
        kept = b"".join((*self._pieces, self._newest))
        excess = max(0, self._size - self.limit)
        self._drop(excess)
        kept = kept[excess:]
        self._newest.clear()
        self._pieces = deque([kept])
        return kept

    def _drop(self, count: int) -> None:
        self._size -= count
        self.dropped += count
