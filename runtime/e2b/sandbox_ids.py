"""The ids of all sessions, for tokens that do not say whose they are.

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
        self._until = float("-inf")
        self._ids: asyncio.Future[Iterable[str]] | None = None

    async def known(self) -> Iterable[str]:
        """Return them, as they were at most a second ago."""
        if self._ids is None or time.monotonic() > self._until:
            self._until = time.monotonic() + SECONDS
            self._ids = asyncio.ensure_future(self._read())
        try:
            # One that leaves must not end what the others wait for.
            return await asyncio.shield(self._ids)
        except Exception:
            self.forget()
            raise

    def forget(self) -> None:
        """Read them again when they are needed: there is another one."""
        self._ids = None
