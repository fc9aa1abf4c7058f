"""One client's connection: frames in, frames out, ended without a trace.

A connection is disposable. Its loss cancels the task that serves it and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.runtime.guest.wire.protocol import Frame, FrameError, FrameReader, encode

HIGH_WATER = 256 << 10
BYTES_AHEAD = 64 << 10
"""Bytes that are read ahead of a client that sends no frames; twice as many at most."""
MAX_INBOX = 64

logger = logging.getLogger(__name__)

Serve = Callable[["ClientConnection", Frame], Awaitable[None]]


class RequestRefused(Exception):
    """A request cannot be carried out; the client gets the code and the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ClientConnection(asyncio.Protocol):
    """Serves the first frame it gets; later ones wait in an inbox."""

    def __init__(self, serve: Serve, open_connections: set[ClientConnection]) -> None:
        self._serve = serve
        self._open = open_connections
        self._reader = FrameReader()
        self._inbox: deque[Frame] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._bytes: asyncio.StreamReader | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop serving this client."""
        self._transport = None
        self._open.discard(self)
        if self._task:
            self._task.cancel()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Receive bytes from the client."""
        if self._bytes is not None:
            self._bytes.feed_data(data)
            return
        try:
            frames = self._reader.feed(data)
        except FrameError as error:
            self._refuse("protocol", str(error))
            self.close()
            return
        for frame in frames:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._run(frame))
            else:
                self._inbox.append(frame)
        if len(self._inbox) > MAX_INBOX and self._transport:
            self._transport.pause_reading()
        if self._inbox and self._arrival and not self._arrival.done():
            self._arrival.set_result(None)

    def pause_writing(self) -> None:
        """Make `send` wait."""
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let `send` continue."""
        if self._room and not self._room.done():
            self._room.set_result(None)
        self._room = None

    async def send(self, head: dict[str, Any], payload: bytes = b"") -> None:
        """Send a frame, waiting while the client does not read."""
        await self.send_encoded(encode(Frame(head, payload)))

    async def send_encoded(self, data: bytes) -> None:
        """Send a frame that is encoded already.

        Raises:
            ConnectionError: the client has left.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(data)
        if self._room:
            await self._room

    async def receive(self) -> Frame:
        """Return the client's next frame."""
        while not self._inbox:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        frame = self._inbox.popleft()
        if len(self._inbox) == MAX_INBOX and self._transport:
            self._transport.resume_reading()
        return frame

    def as_bytes(self) -> asyncio.StreamReader:
        """Receive raw bytes from now on, no longer frames, until the client leaves.

        Raises:
            RequestRefused: it did not wait for the answer to its request.
            ConnectionError: it has left.
        """
        if self._transport is None:
            raise ConnectionResetError
        if self._inbox or self._reader.pending:
            raise RequestRefused("protocol", "cannot pass bytes on: the client did not wait for the answer")
        self._bytes = asyncio.StreamReader(BYTES_AHEAD)
        self._bytes.set_transport(self._transport)
        return self._bytes

    def close(self) -> None:
        """Close once all sent data have gone out."""
        if self._transport:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport:
            self._transport.abort()

    async def _run(self, frame: Frame) -> None:
        try:
            await self._serve(self, frame)
        except RequestRefused as refusal:
            self._refuse(refusal.code, str(refusal))
        except ConnectionError:
            pass
        except FrameError as error:
            self._refuse("protocol", str(error))
        except Exception as error:
            logger.exception("operation %s failed", frame.op)
            self._refuse("internal", f"cannot do {frame.op}: {type(error).__name__}: {error}")
        finally:
            self.close()

    def _refuse(self, code: str, message: str) -> None:
        if self._transport and not self._transport.is_closing():
            head = {"event": "error", "code": code, "message": message[:4000], "end": True}
            self._transport.write(encode(Frame(head)))
