"""Waits for a message of the server, as long as it takes, and heeds signals meanwhile."""

from __future__ import annotations

from contextlib import suppress

from websockets.sync.client import ClientConnection

LOOK_UP = 1.0  # seconds between two looks whether a signal came


def next_message(connection: ClientConnection) -> str | bytes:
    """Return the next message.

    A signal that arrives just before a system call, or to another thread, does not interrupt the call, and
    Python runs its handler when that has returned: so the wait is repeated. Parts of a message are not lost.

    Raises:
        ConnectionClosed: the connection is lost.
    """
    while True:
        with suppress(TimeoutError):
            return connection.recv(LOOK_UP)
