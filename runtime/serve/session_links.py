"""Connections into sessions: their limit, and how one is opened without blocking the loop."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from holdfast.runtime.serve.call_threads import CallThreads, TooManyOfSession

MOST, MOST_OF_SANDBOX = 256, 64
MOST_SOCKETS, MOST_SOCKETS_OF_SANDBOX = 64, 16
"""WebSockets among them: each can hold a whole message."""
MOST_OPENING, MOST_OPENING_OF_SANDBOX = 64, 16
READ_AHEAD = 64 << 10


@dataclass(frozen=True, slots=True)
class SessionStream:
    """An open connection to a port or a kernel."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class SessionLinks:
    """All the connections of a server; used in its loop."""

    def __init__(self) -> None:
        # Threads of their own: servers that do not accept must not take those of other calls.
        self._threads = CallThreads(MOST_OPENING, MOST_OPENING_OF_SANDBOX)
        self._open: Counter[str] = Counter()
        self._sockets: Counter[str] = Counter()

    @asynccontextmanager
    async def opened(
        self, sandbox: str, connect: Callable[[], socket.socket], *, websocket: bool
    ) -> AsyncIterator[SessionStream]:
        """Connect in a thread, and close the connection at the end.

        Raises:
            TooManyOfSession: there are too many.
            HoldfastError: `connect` failed.
        """
        counted = [(self._open, MOST_OF_SANDBOX, MOST)]
        if websocket:
            counted.append((self._sockets, MOST_SOCKETS_OF_SANDBOX, MOST_SOCKETS))
        for counter, most_here, most in counted:
            if counter[sandbox] >= most_here or counter.total() >= most:
                raise TooManyOfSession(
                    f"cannot connect to the session: it has {most_here} connections, or all have {most}",
                    hint="try again when one has ended",
                )
        for counter, _, _ in counted:
            counter[sandbox] += 1
        try:
            found = await self._connected(sandbox, connect)
            reader, writer = await asyncio.open_unix_connection(sock=found, limit=READ_AHEAD)
            try:
                yield SessionStream(reader, writer)
            finally:
                writer.transport.abort()
        finally:
            for counter, _, _ in counted:
                counter[sandbox] -= 1
                if not counter[sandbox]:
                    del counter[sandbox]

    async def _connected(self, sandbox: str, connect: Callable[[], socket.socket]) -> socket.socket:
        """Return the result of `connect`; an early departure of the caller leaves no connection open."""
        opening = asyncio.ensure_future(self._threads.run(connect, sandbox))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise


def _close(opening: asyncio.Future[socket.socket]) -> None:
    with suppress(BaseException):
        opening.result().close()
