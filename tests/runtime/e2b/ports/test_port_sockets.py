"""WebSockets of a server in a session: one that is well behaved, and ones that are not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import h11
import pytest
from tests.runtime.e2b.ports.test_port_exchange import joined
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from holdfast.runtime.e2b.ports import port_sockets
from holdfast.runtime.e2b.ports.port_exchange import BadAnswer
from holdfast.runtime.e2b.ports.port_sockets import MOST_MESSAGE, PortSocket
from holdfast.runtime.serve.session_links import SessionStream

CONNECT = {"type": "websocket.connect"}
MIB = 1 << 20
Serve = Callable[[SessionStream], Awaitable[None]]


class Client:
    """What a client says, and what it is told."""

    def __init__(self, said: Sequence[dict[str, Any]] = (), leaves_after: int = -1) -> None:
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for each in (CONNECT, *said):
            self.said.put_nowait(each)
        self.told: list[dict[str, Any]] = []
        self._leaves_after = leaves_after

    async def send(self, message: dict[str, Any]) -> None:
        self.told.append(message)
        if len(self.messages) == self._leaves_after:
            self.said.put_nowait({"type": "websocket.disconnect", "code": 1001, "reason": ""})

    @property
    def messages(self) -> list[Any]:
        return [each.get("text", each.get("bytes")) for each in self.told if each["type"] == "websocket.send"]


async def _run(serve: Serve, client: Client, offered: Sequence[str], stopped: asyncio.Event) -> None:
    key, more = port_sockets.handshake(offered)
    request = h11.Request(method="GET", target="/", headers=[(b"host", b"h"), *more])
    async with joined() as (stream, far):
        serving = asyncio.ensure_future(serve(far))
        try:
            async with asyncio.timeout(60):
                relay = PortSocket(stream, client.said.get, client.send)  # type: ignore[arg-type]
                await relay.run(request, key, offered, stopped)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def relayed(
    serve: Serve, said: Sequence[dict[str, Any]] = (), offered: Sequence[str] = (), leaves_after: int = -1
) -> Client:
    async def run() -> Client:
        client = Client(said, leaves_after)
        await _run(serve, client, offered, asyncio.Event())
        return client

    return asyncio.run(run())


async def accepted(far: SessionStream, subprotocols: Sequence[str] = ()) -> ServerProtocol:
    """Accept a WebSocket, as a server does."""
    server = ServerProtocol(subprotocols=list(subprotocols) or None, max_size=None)  # type: ignore[arg-type]
    server.receive_data(await far.reader.readuntil(b"\r\n\r\n"))
    (request,) = server.events_received()
    assert isinstance(request, Request)
    server.send_response(server.accept(request))
    flush(far, server)
    return server


def flush(far: SessionStream, server: ServerProtocol) -> None:
    for data in server.data_to_send():
        far.writer.write(data)


async def chat(far: SessionStream) -> None:
    """Send each message back."""
    server = await accepted(far, ["chat"])
    while data := await far.reader.read(MIB):
        server.receive_data(data)
        for event in server.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                server.send_text(event.data)
            elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                server.send_binary(event.data)
        flush(far, server)


def answering(data: bytes) -> Serve:
    async def serve(far: SessionStream) -> None:
        await far.reader.readuntil(b"\r\n\r\n")
        far.writer.write(data)
        await far.writer.drain()
        await far.reader.read()

    return serve


def sending(*frames: bytes) -> Serve:
    """Return a server that accepts, and sends bytes that need not be frames."""

    async def serve(far: SessionStream) -> None:
        await accepted(far)
        for each in frames:
            far.writer.write(each)
            await far.writer.drain()
        await far.reader.read()

    return serve


def frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return bytes(Frame(opcode, data, fin).serialize(mask=False))


def test_messages_pass_both_ways_and_an_end_is_told() -> None:
    said: list[dict[str, Any]] = [
        {"type": "websocket.receive", "text": "grüß Gott"},
        {"type": "websocket.receive", "text": None, "bytes": b"\0\xff"},
    ]
    found = relayed(chat, said, ["chat", "other"], leaves_after=2)
    assert found.told[0] == {"type": "websocket.accept", "subprotocol": "chat", "headers": []}
    assert found.messages == ["grüß Gott", b"\0\xff"]


def test_a_session_that_closes_closes_the_client_with_its_code() -> None:
    closed = frame(Opcode.CLOSE, (4321).to_bytes(2, "big") + b"bye")
    assert relayed(sending(closed)).told[-1] == {"type": "websocket.close", "code": 4321, "reason": "bye"}


def test_a_session_that_is_gone_closes_the_client() -> None:
    async def serve(far: SessionStream) -> None:
        await accepted(far)
        far.writer.close()

    assert relayed(serve).told[-1]["code"] == 1011


def test_fragments_are_one_message() -> None:
    parts = [
        frame(Opcode.TEXT, b"a", fin=False),
        frame(Opcode.CONT, b"b", fin=False),
        frame(Opcode.CONT, b"c"),
    ]
    found = relayed(sending(*parts, frame(Opcode.PING, b"x"), frame(Opcode.CLOSE, b"\x03\xe8")))
    assert found.messages == ["abc"]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([frame(Opcode.BINARY, b"x" * (MOST_MESSAGE + 1))], 1009),
        ([frame(Opcode.BINARY, b"x", fin=False)] + [frame(Opcode.CONT, b"x" * MIB, fin=False)] * 5, 1009),
        ([frame(Opcode.TEXT, b"\xff\xfe")], 1007),
        ([b"\xff" * 1000], 1002),
        ([frame(Opcode.CONT, b"x")], 1002),
        ([frame(Opcode.CLOSE, b"\0\1")], 1002),
    ],
)
def test_what_is_no_message_closes_it(frames: list[bytes], code: int) -> None:
    found = relayed(sending(*frames))
    assert found.messages == []
    assert found.told[-1]["code"] == code


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000,
        b"HTTP/1.1 999 Odd\r\n\r\n",
    ],
)
def test_what_opens_no_websocket_is_an_error_of_the_sandbox(answer: bytes) -> None:
    with pytest.raises(BadAnswer, match="cannot open a WebSocket"):
        relayed(answering(answer))


def test_a_subprotocol_that_was_not_offered_is_refused() -> None:
    async def serve(far: SessionStream) -> None:
        head = await far.reader.readuntil(b"\r\n\r\n")
        server = ServerProtocol()
        server.receive_data(head)
        (request,) = server.events_received()
        assert isinstance(request, Request)
        response = server.accept(request)
        response.headers["Sec-WebSocket-Protocol"] = "other"
        server.send_response(response)
        flush(far, server)

    with pytest.raises(BadAnswer, match="another one"):
        relayed(serve, offered=["chat"])


def test_a_refusal_is_passed_on_with_its_reason() -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\nX-Why: no\r\nContent-Length: 6\r\n\r\nnot me"
    start, body = relayed(answering(refusal)).told
    assert (start["status"], body["body"]) == (403, b"not me")
    assert start["headers"] == [(b"x-why", b"no")]
    endless = b"HTTP/1.1 403 Forbidden\r\n\r\n" + b"x" * MIB
    assert len(relayed(answering(endless)).told[1]["body"]) == 64 << 10


def test_a_server_that_stops_closes_it() -> None:
    async def run() -> Client:
        client, stopped = Client(), asyncio.Event()
        running = asyncio.ensure_future(_run(chat, client, ["chat"], stopped))
        while not client.told:
            await asyncio.sleep(0)
        stopped.set()
        await running
        return client

    assert asyncio.run(run()).told[-1] == {
        "type": "websocket.close",
        "code": 1012,
        "reason": "the server stops",
    }
