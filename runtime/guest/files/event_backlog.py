"""The changes that a reader has not received yet, numbered and bounded. Pure.

When there is no room, one entry says that changes were lost, and nothing is added until the reader has caught
up.
"""

from __future__ import annotations

from collections import deque

from holdfast.runtime.guest.files.path_events import PathChange

MAX_BYTES = 1 << 20
HIGH_BYTES = MAX_BYTES // 4
"""From here on no events should be read from the kernel, which has a queue of its own."""
BATCH_BYTES = 128 << 10
"""Size of what is sent at once: in JSON a byte that is no UTF-8 takes six."""
_EACH = 100
"""Bytes of an entry besides its paths, roughly."""


class EventBacklog:
    """Changes by number, the oldest first."""

    def __init__(self, last: int = 0) -> None:
        """Begin after a number."""
        self._entries: deque[tuple[int, PathChange]] = deque()
        self._last = last
        self._sent = last
        self._size = 0

    @property
    def high(self) -> bool:
        """Whether nothing more should be read for now."""
        return self._size >= HIGH_BYTES

    @property
    def last(self) -> int:
        """The number of the latest change."""
        return self._last

    def add(self, change: PathChange) -> None:
        """Add a change, unless it repeats the last one before that was sent."""
        if self._size >= MAX_BYTES:
            self.lose("slow")
            return
        latest = self._latest()
        if change == latest and self._last > self._sent and change.kind in ("modified", "attributes"):
            return
        self._append(change)

    def lose(self, why: str) -> None:
        """Note that changes were lost, unless that is the last thing noted."""
        latest = self._latest()
        if latest is None or latest.kind != "lost" or self._last <= self._sent:
            self._append(PathChange("lost", "", why=why))

    def received(self, number: int) -> None:
        """Forget what the reader has, up to a number."""
        while self._entries and self._entries[0][0] <= number:
            self._size -= _size(self._entries.popleft()[1])

    def batch(self, after: int) -> list[tuple[int, PathChange]]:
        """Return the next changes after a number; they count as sent."""
        found: list[tuple[int, PathChange]] = []
        size = 0
        for number, change in self._entries:
            if number > after:
                found.append((number, change))
                size += _size(change)
                if size >= BATCH_BYTES:
                    break
        if found:
            self._sent = max(self._sent, found[-1][0])
        return found

    def _latest(self) -> PathChange | None:
        return self._entries[-1][1] if self._entries else None

    def _append(self, change: PathChange) -> None:
        self._last += 1
        self._entries.append((self._last, change))
        self._size += _size(change)


def _size(change: PathChange) -> int:
    return _EACH + len(change.path) + len(change.to or "")
