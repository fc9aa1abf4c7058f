"""The ids of all sessions that a token can be for.

Callers without a token cause lookups as well, so the store is read at most once a second; and again as soon
as this server has made a session, whose tokens its client uses at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

SECONDS = 1.0


class SandboxIds:
    """The ids as `read` returns them."""

    def __init__(self, read: Callable[[], Awaitable[Iterable[str]]]) -> None:
        self._read = read
        self._began = float("-inf")
        self._ids: asyncio.Future[Iterable[str]] | None = None

    async def known(self) -> Iterable[str]:
        """Return them, as they were at most a second ago."""
        return (await self._latest())[1]

    async def has(self, sandbox: str) -> bool:
        """Return whether there is a session with this id now: another process may just have made it."""
        asked = time.monotonic()
        while True:
            began, ids = await self._latest()
            if sandbox in ids:
                return True
            if began > asked:
                return False
            if self._began == began:  # otherwise another request has them read again already
                self.forget()

    async def _latest(self) -> tuple[float, Iterable[str]]:
        """Return when the latest reading began, and what it found."""
        if self._ids is None or time.monotonic() > self._began + SECONDS:
            self._began = time.monotonic()
            self._ids = asyncio.ensure_future(self._read())
        began, reading = self._began, self._ids
        try:
            # One that leaves must not end what the others wait for.
            return began, await asyncio.shield(reading)
        except Exception:
            if self._ids is reading:
                self.forget()
            raise

    def forget(self) -> None:
        """Read them again when they are needed: there is another one."""
        self._ids = None
