"""Waits for a message of the server, as long as it takes."""

from __future__ import annotations

from websockets.asyncio.client import ClientConnection


async def next_message(connection: ClientConnection) -> str | bytes:
    """Return the next message.

    Raises:
        ConnectionClosed: the connection is lost.
    """
    return await connection.recv()
