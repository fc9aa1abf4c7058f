"""Clients of a WebSocket that flood it, or never read: the server's memory for them is bounded."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from holdfast.runtime.serve.channels import channel_socket
from holdfast.runtime.serve.channels.channel_socket import ChannelSocket

SECONDS = 60.0
"""For a socket to accept or send more: one that does not in this time never will."""
MOST = 256 << 20
"""Bytes: more than the system keeps of a connection."""


class Watched(ChannelSocket):
    """Notes the connections, for a look at what they hold."""

    made: list[ChannelSocket]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.made.append(self)


class Echo:
    """A server whose application sends back what it gets, in a thread."""

    def __init__(self) -> None:
        self.sockets: list[ChannelSocket] = []
        kind = type("WatchedHere", (Watched,), {"made": self.sockets})
        self.left = threading.Event()
        """Set when an application has ended."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            self._echo,
            interface="asgi3",
            ws=kind,
            log_config=None,
            lifespan="off",
            ws_ping_interval=None,
            ws_max_size=1 << 20,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)

    async def _echo(self, _scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})
        finally:
            self.left.set()

    @contextmanager
    def serving(self) -> Iterator[str]:
        self._thread.start()
        try:
            yield f"ws://127.0.0.1:{self._listener.getsockname()[1]}/"
        finally:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join(SECONDS)
            self._listener.close()
        assert not self._thread.is_alive()

    def look(self, value: Callable[[ChannelSocket], int]) -> int:
        """Return something of the first connection, read on the loop."""
        first = self.sockets[0]

        async def looked() -> int:
            return value(first)

        return asyncio.run_coroutine_threadsafe(looked(), first.loop).result(SECONDS)


@pytest.fixture
def echo() -> Echo:
    return Echo()


def opened(url: str) -> ClientConnection:
    found: ClientConnection = connect(url, proxy=None, compression=None, ping_interval=None, max_size=None)
    return found


def frame(opcode: int, data: bytes, *, fin: bool = True) -> bytes:
    """Return a frame of a client; a mask of zeros leaves the data as they are."""
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else struct.pack("!BH", 0x80 | 126, size)
    return bytes([(0x80 if fin else 0) | opcode]) + length + bytes(4) + data


@contextmanager
def not_reading(url: str) -> Iterator[socket.socket]:
    """Yield the connection of a client that reads nothing after the handshake."""
    parts = urlsplit(url)
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        raw.settimeout(SECONDS)
        raw.connect((parts.hostname, parts.port))
        raw.sendall(
            f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += raw.recv(1)
        assert head.startswith(b"HTTP/1.1 101 ")
        yield raw


def is_stuffed(raw: socket.socket, data: bytes) -> bool:
    """Send the same again and again; return true once no more is taken."""
    raw.settimeout(3)
    taken = 0
    with suppress(TimeoutError):
        while taken < MOST:
            taken += raw.send(data)
    return taken < MOST


def test_messages_of_all_sizes_come_back_in_order(echo: Echo) -> None:
    """Messages in one frame, in fragments with pings between them, and many in a row."""
    texts = [os.urandom(size // 2).hex() for size in (0, 2, 126, 4000, 70_000, 900_000)] + ["x"] * 5000
    with echo.serving() as url, opened(url) as client:
        for text in texts:
            client.send(text)
        assert [client.recv(SECONDS) for _ in texts] == texts
        client.send(iter(["a", "b" * 40_000, "", "c"]))
        assert client.recv(SECONDS) == "a" + "b" * 40_000 + "c"
        client.ping().wait(SECONDS)
    assert echo.left.wait(SECONDS)


@pytest.mark.parametrize("data", [frame(9, b"p" * 125) * 500, frame(1, b"t" * 1000) * 60])
def test_a_client_that_does_not_read_is_not_read_from(echo: Echo, data: bytes) -> None:
    """Neither pings nor messages, each of which has an answer."""
    with echo.serving() as url, not_reading(url) as raw:
        assert is_stuffed(raw, data)
        assert echo.look(lambda each: each.transport.get_write_buffer_size()) < 1 << 20
        assert echo.look(lambda each: each.queue.qsize()) < 100
        with opened(url) as other:
            other.send("still here")
            assert other.recv(SECONDS) == "still here"


def test_a_message_of_too_many_fragments_is_refused(echo: Echo) -> None:
    """Empty ones count no bytes, and would be kept all the same."""
    with echo.serving() as url, opened(url) as client:
        client.socket.sendall(frame(1, b"", fin=False))
        with pytest.raises((ConnectionClosed, ConnectionResetError)) as closed:  # noqa: PT012
            for _ in range(200):
                client.socket.sendall(frame(0, b"", fin=False) * 100)
            client.recv(SECONDS)
        if isinstance(closed.value, ConnectionClosed):  # else the kernel told first that it has ended
            assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
        assert echo.left.wait(SECONDS)
        assert echo.look(lambda each: len(each.frames)) == 0


def test_others_have_their_turn_in_a_flood(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrived bytes are parsed in pieces, with one turn of the loop after each."""
    turns: list[int] = []
    parse = ChannelSocket._parse

    def counted(self: ChannelSocket) -> None:
        before = len(self._arrived)
        parse(self)
        turns.append(before - len(self._arrived))

    monkeypatch.setattr(ChannelSocket, "_parse", counted)
    with echo.serving() as url, opened(url) as client:
        client.socket.sendall(frame(10, b"unasked") * 100_000)
        client.send("after")
        assert client.recv(SECONDS) == "after"
    assert max(turns) <= channel_socket.PIECE
    assert sum(turns) >= 1_300_000


def test_a_client_that_answers_no_ping_and_reads_nothing_is_cut_off(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_socket, "LAST_SECONDS", 0.1)
    with echo.serving() as url, not_reading(url) as raw:
        assert is_stuffed(raw, frame(1, b"t" * 1000) * 60)
        found = echo.sockets[0]
        found.loop.call_soon_threadsafe(found.keepalive_timeout)
        assert echo.left.wait(SECONDS)
