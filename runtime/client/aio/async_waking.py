"""Ends the waiting of a call from another thread: by a message to the server, in the loop of the call."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed


class AsyncWaking:
    """What `Patience.end` hangs up: the server is asked to end the waiting, and answers as ever."""

    def __init__(self, connection: ClientConnection, message: str) -> None:
        self._connection, self._message = connection, message
        self._loop = asyncio.get_running_loop()
        self._sending: asyncio.Task[None] | None = None

    def hang_up(self) -> None:
        """Ask it."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._sending = self._loop.create_task(self._send())

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            await self._connection.send(self._message)
