"""A WebSocket whose client can neither fill the server's memory nor occupy its event loop.

The protocol of uvicorn answers pings whether or not the client reads, takes any number of fragments, parses
all arrived bytes in one go, and waits endlessly for a client to read the last bytes.  Does not know
channels.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

MOST_FRAGMENTS = 4096
"""Of one message: each takes more memory than its bytes."""
PIECE = 2 << 10
"""Bytes that are parsed before others have their turn: at most 341 frames, a few milliseconds."""
LAST_SECONDS = 10.0
"""In which a client that did not answer a ping can read the sent data, before the connection is cut."""


class ChannelSocket(WebSocketsSansIOProtocol):
    """One connection of a client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arrived = bytearray()
        """Bytes that are not parsed yet; nothing more is read while there are any."""
        self._scheduled = False

    @property
    def _is_held_up(self) -> bool:
        """True while a message waits for the application, or output for the client."""
        return self.read_paused or not self.writable.is_set()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, a piece at a time."""
        self._arrived += data
        if not self._scheduled:
            self._parse()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read: its messages can need answers."""
        super().pause_writing()
        self._proceed()

    def resume_writing(self) -> None:
        """Read from it again."""
        super().resume_writing()
        self._proceed()

    async def receive(self) -> Any:
        """Return the next message for the application."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._proceed()
        return message

    async def send(self, message: Any) -> None:
        """Send a message of the application."""
        await super().send(message)
        if message["type"] == "websocket.close":
            self._proceed()  # the answer to it is awaited

    def handle_cont(self, event: Any) -> None:
        """Process another fragment of a message, unless it has too many."""
        if self.close_sent:
            return
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"more than {MOST_FRAGMENTS} fragments")
        self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Queue a message for the application, and read on only until further data arrive.

        Most clients wait for an answer first: to stop reading, and to begin again, takes two calls of the
        system for each message.
        """
        self.read_paused = True
        super().send_receive_event_to_app()

    def keepalive_timeout(self) -> None:
        """Give up a client that did not answer, even if it never reads its output."""
        super().keepalive_timeout()
        self.loop.call_later(LAST_SECONDS, self.transport.abort)

    def _parse(self) -> None:
        self._scheduled = False
        if self.transport.is_closing():
            self._arrived.clear()
            return
        if not self._is_held_up:
            piece = bytes(self._arrived[:PIECE])
            del self._arrived[:PIECE]
            super().data_received(piece)
        self._proceed()

    def _proceed(self) -> None:
        """Parse the next piece or read more, unless reading is held up."""
        if self._is_held_up:
            if self._arrived:
                self.transport.pause_reading()
        elif not self._arrived:
            self.transport.resume_reading()
        elif not self._scheduled:
            self.transport.pause_reading()
            self._scheduled = True
            self.loop.call_soon(self._parse)
