"""Events on their way from a thread to the event loop, bounded: a slow reader slows the thread down."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

Item = TypeVar("Item")

ROOM = 1 << 20
"""Bytes that may be under way."""


class Lull:
    """The first moment of a call, in which the reader need not be woken: the end may follow at once."""

    def __init__(self) -> None:
        self.is_over = False
        self.timer: asyncio.TimerHandle | None = None


class EventBridge(Generic[Item]):
    """A queue from one thread to one reader in the loop in which it was made."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._items: deque[tuple[Item, int]] = deque()
        self._size = 0
        self._arrived, self._sent = asyncio.Event(), asyncio.Event()
        self._ended = False
        self.left = False
        """True once the reader has left."""

    def put(self, item: Item, size: int, lull: Lull | None = None) -> None:
        """Pass on an item that counts for `size` bytes, from the thread; waits while there is no room.

        In a lull the reader finds it with the next one, or when the lull is over. Once the reader has left,
        items are dropped.
        """
        with self._changed:
            while self._size >= self._room and not self.left:
                self._changed.wait()
            if self.left:
                return
            self._items.append((item, size))
            self._size += size
            wakes = lull is None or lull.is_over
        if wakes:
            self._wake()

    def lull(self, seconds: float) -> Lull:
        """Return a lull that is over after some time, or once it is ended; from the loop."""
        made = Lull()
        made.timer = self._loop.call_later(seconds, self._end, made)
        return made

    def end_lull(self, lull: Lull) -> None:
        """Let it be over now; from the loop."""
        assert lull.timer is not None
        lull.timer.cancel()
        self._end(lull)

    def _end(self, lull: Lull) -> None:
        with self._changed:  # what was put before is found now, what is put later wakes the reader
            lull.is_over = True
        self._arrived.set()

    def put_now(self, item: Item, size: int) -> None:
        """Pass on an item from the loop, whether or not there is room."""
        with self._changed:
            if not self.left:
                self._items.append((item, size))
                self._size += size
        self._arrived.set()

    async def room(self) -> None:
        """Wait until there is room, in the loop."""
        while self._size >= self._room and not self.left:
            self._sent.clear()
            await self._sent.wait()

    def end(self) -> None:
        """Let the reader find the end; from the thread."""
        self._ended = True
        self._wake()

    def leave(self) -> None:
        """Read no more, and let the thread pass; from the loop."""
        with self._changed:
            self.left = True
            self._items.clear()
            self._changed.notify_all()
        self._sent.set()

    async def items(self) -> AsyncIterator[Item]:
        """Yield items until the end."""
        while True:
            self._arrived.clear()
            while self._items:
                with self._changed:
                    item, size = self._items.popleft()
                    self._size -= size
                    self._changed.notify_all()
                self._sent.set()
                yield item
            if self._ended and not self._items:
                return
            await self._arrived.wait()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the server has ended
            self.leave()
