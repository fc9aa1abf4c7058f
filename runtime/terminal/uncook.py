"""Output of a terminal as the program wrote it.  Pure.

A terminal in its usual mode writes every newline as carriage return and newline (ONLCR).  Taking each such
pair back to a newline is the exact inverse, also for a program that writes pairs itself: they arrive as
CR CR LF.
"""

from __future__ import annotations


class Uncook:
    """Undoes ONLCR in a stream, whatever way it is cut into pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """More of the stream; a carriage return at its end waits for what follows."""
        data = self._held + data
        self._held = b"\r" if data.endswith(b"\r") else b""
        return data[: len(data) - len(self._held)].replace(b"\r\n", b"\n")

    def end(self) -> bytes:
        """What was held back when the stream ended."""
        held, self._held = self._held, b""
        return held


class Tail:
    """The end of a stream, at most `limit` bytes of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self._pieces.append(data)
        self._size += len(data)
        # Twice the limit before it is cut: then each byte is copied at most once on average.
        if self._size > 2 * self.limit:
            self._cut()

    def value(self) -> bytes:
        """What is kept."""
        self._cut()
        return b"".join(self._pieces)

    def _cut(self) -> None:
        if self._size <= self.limit:
            return
        kept = b"".join(self._pieces)[self._size - self.limit :]
        self.dropped += self._size - len(kept)
        self._pieces, self._size = [kept], len(kept)
