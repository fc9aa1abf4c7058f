"""Waiters for recurring changes: each change wakes all of them, once."""

from __future__ import annotations

import asyncio


class Waiters:
    """The waiters for one kind of change."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Wait for the next change."""
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        try:
            await future
        finally:
            if future in self._futures:
                self._futures.remove(future)

    def wake(self) -> None:
        """Wake all present waiters."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)
