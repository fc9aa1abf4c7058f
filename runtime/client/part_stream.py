"""A stream of parts that are fetched as they are read.  Pure."""

from __future__ import annotations

import io
from collections.abc import Callable


class PartStream(io.RawIOBase):
    """Reads parts of any size, empty ones included. `following` returns the next one, and None at the end."""

    def __init__(self, following: Callable[[], bytes | None]) -> None:
        super().__init__()
        self._following = following
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes, and return their number."""
        while not self._left:
            part = self._following()
            if part is None:
                return 0
            self._left = memoryview(part)
        view = memoryview(buffer)  # type: ignore[arg-type]
        size = min(len(view), len(self._left))
        view[:size], self._left = self._left[:size], self._left[size:]
        return size
