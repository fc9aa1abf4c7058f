"""Connections to a server in asyncio: requests, messages, the end of a wait, callbacks.

Written by hand, as `../blocking/remote_connection.py` is. Waits take as long as the server does.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import Any, Protocol

import httpx
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from holdfast.runtime.client.channel_calls import ChannelCall
from holdfast.runtime.client.client_address import ClientAddress


def carrier(address: ClientAddress) -> httpx.AsyncBaseTransport:
    """Return the carrier of requests to a server."""
    return httpx.AsyncHTTPTransport(uds=address.socket, limits=httpx.Limits())


async def next_message(connection: ClientConnection) -> str | bytes:
    """Return the next message.

    Raises:
        ConnectionClosed: the connection is lost.
    """
    return await connection.recv()


class AsyncSends(Protocol):
    """A path by which a message reaches the server."""

    async def send(self, message: str, /) -> None:
        """Send a message."""


class AsyncWaking:
    """The target of `Patience.end`: the server is asked to end the wait, and answers as usual."""

    def __init__(self, connection: AsyncSends, message: str) -> None:
        self._connection, self._message = connection, message
        self._loop = asyncio.get_running_loop()
        self._sending: asyncio.Task[None] | None = None

    def hang_up(self) -> None:
        """Ask the server to end the wait."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._sending = self._loop.create_task(self._send())

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            await self._connection.send(self._message)


async def settled(call: ChannelCall[Any]) -> str | None:
    """Await the results of a call's callbacks; return the line that one of them gave as an answer."""
    returned, call.returned = call.returned, []
    for each in returned:
        if inspect.isawaitable(each):
            await each
    line, call.line = call.line, None
    found: str | None = await line if inspect.isawaitable(line) else line
    return found
