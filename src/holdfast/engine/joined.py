"""Pieces of an engine's answer as one file. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class Joined:
    """Pieces that are read as a file, from its beginning to its end."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._held = b""

    def read(self, size: int) -> bytes:
        """Return this many bytes, fewer at the end."""
        found = bytearray(self._held[:size])
        self._held = self._held[size:]
        while len(found) < size and (piece := next(self._pieces, b"")):
            room = size - len(found)
            found += piece[:room]
            self._held = piece[room:]
        return bytes(found)
