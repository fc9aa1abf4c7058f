"""Connections whose requests come slowly: each head has its time, and nothing else is cut off."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from websockets.sync.client import connect

from holdfast.runtime.http_doors import door_sockets
from holdfast.runtime.http_doors.door_sockets import DoorConnection

SECONDS = 60.0
SHORT = 1.0
"""For what must be whole in time: long enough for two writes one after the other on a busy machine."""
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer after some time, if the path says so."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * SHORT)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server on which the heads of later requests have little time."""
    monkeypatch.setattr(door_sockets, "NEXT_REQUEST_SECONDS", SHORT)
    opened = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=DoorConnection, ws="websockets-sansio", log_config=None, lifespan="off", interface="asgi3"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([opened],), daemon=True)
    thread.start()
    yield opened.getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join(SECONDS)
    opened.close()
    assert not thread.is_alive()


@pytest.fixture
def raw(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as made:
        yield made


def answer(raw: socket.socket) -> bytes:
    """Read one answer."""
    found = b""
    while not found.endswith(b"\r\n\r\nok"):
        part = raw.recv(4096)
        assert part, found
        found += part
    return found


def is_closed(raw: socket.socket) -> bool:
    """Send parts of a head until the server has closed the connection."""
    give_up = time.monotonic() + SECONDS
    raw.settimeout(SHORT / 10)
    while time.monotonic() < give_up:
        try:
            raw.sendall(b"X-More: x\r\n")
            if raw.recv(4096) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_the_first_head_must_be_whole_in_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_sockets, "FIRST_REQUEST_SECONDS", 0.1)
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as raw:
        assert is_closed(raw)


def test_so_must_every_later_one(raw: socket.socket) -> None:
    for _ in range(3):
        raw.sendall(HEAD + b"\r\n")
        answer(raw)
    raw.sendall(HEAD)
    assert is_closed(raw)


def test_a_connection_between_requests_stays(raw: socket.socket) -> None:
    for _ in range(2):
        raw.sendall(HEAD + b"\r\n")
        answer(raw)
        time.sleep(2 * SHORT)


def test_a_head_that_arrives_in_parts_is_answered_whenever_the_answer_comes(raw: socket.socket) -> None:
    for path in (b"/", b"/slow"):
        raw.sendall(b"GET " + path)
        raw.sendall(HEAD.removeprefix(b"GET /") + b"\r\n")
        assert answer(raw).startswith(b"HTTP/1.1 200 ")


def test_a_websocket_on_a_connection_that_had_requests_lasts(port: int, raw: socket.socket) -> None:
    raw.sendall(HEAD + b"\r\n")
    answer(raw)
    with connect(f"ws://127.0.0.1:{port}/", sock=raw, proxy=None) as channel:
        time.sleep(2 * SHORT)
        channel.send("lasts")
        assert channel.recv(SECONDS) == "lasts"
