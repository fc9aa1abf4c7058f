"""Ends the waiting of a call from another thread: by a message to the server."""

from __future__ import annotations

from contextlib import suppress

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection


class RemoteWaking:
    """What `Patience.end` hangs up: the server is asked to end the waiting, and answers as ever."""

    def __init__(self, connection: ClientConnection, message: str) -> None:
        self._connection, self._message = connection, message

    def hang_up(self) -> None:
        """Ask it."""
        with suppress(ConnectionClosed):
            self._connection.send(self._message)
