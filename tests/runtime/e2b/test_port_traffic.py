"""Heads, answers and WebSockets on their way to and from a port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import h11
import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from holdfast.runtime.e2b import port_traffic
from holdfast.runtime.e2b.connect_wire import SandboxUnavailable
from holdfast.runtime.e2b.port_traffic import MOST_MESSAGE, AnswerCut, BadAnswer, PortExchange, PortSocket
from holdfast.runtime.serve.session_links import SessionStream

TOKEN = b"0123456789abcdef"


def is_token(given: bytes) -> bool:
    return given == TOKEN


def scope(*headers: tuple[bytes, bytes], query: bytes = b"", **more: Any) -> dict[str, Any]:
    said = {"method": "POST", "raw_path": b"/a%20b", "query_string": query, "headers": list(headers)}
    return said | more


def test_a_request_is_passed_on_as_it_is() -> None:
    made = port_traffic.request_head(
        scope((b"host", b"x"), (b"accept", b"*/*"), (b"content-length", b"3"), query=b"c=%2F"),
        b"3000-a.localhost",
        is_token,
        [(b"connection", b"close")],
    )
    assert (made.method, made.target) == (b"POST", b"/a%20b?c=%2F")
    assert list(made.headers) == [
        (b"host", b"3000-a.localhost"),
        (b"accept", b"*/*"),
        (b"content-length", b"3"),
        (b"connection", b"close"),
    ]


def test_no_token_of_the_server_reaches_a_session() -> None:
    """Nor do headers that are about the connection of the client."""
    secret = [
        (b"x-api-key", b"e2b_" + TOKEN),
        (b"x-access-token", b"t"),
        (b"e2b-traffic-access-token", b"t"),
        (b"e2b-sandbox-id", b"a"),
        (b"authorization", b"Bearer " + TOKEN),
        (b"connection", b"keep-alive, X-Own"),
        (b"x-own", b"1"),
        (b"proxy-authorization", b"Basic x"),
        (b"upgrade", b"h2c"),
        (b"sec-websocket-key", b"k"),
        (b"holdfast-actor", b"person:ada"),
    ]
    made = port_traffic.request_head(scope(*secret, (b"cookie", b"c=1")), b"h", is_token, [])
    assert list(made.headers) == [(b"host", b"h"), (b"cookie", b"c=1")]
    kept = port_traffic.request_head(scope((b"authorization", b"Bearer its-own")), b"h", is_token, [])
    assert (b"authorization", b"Bearer its-own") in list(kept.headers)
    offered = scope(subprotocols=["chat", "bearer." + TOKEN.decode(), TOKEN.decode()])
    assert port_traffic.offered_subprotocols(offered, is_token) == ["chat"]


def test_a_body_has_one_length() -> None:
    """Two that differ would let the session's server and this one disagree about where a request ends."""
    both = scope((b"content-length", b"3"), (b"transfer-encoding", b"chunked"))
    assert list(port_traffic.request_head(both, b"h", is_token, []).headers)[1:] == [
        (b"transfer-encoding", b"chunked")
    ]


def test_an_answer_keeps_its_cookies_to_its_own_name() -> None:
    said = h11.Response(
        status_code=200,
        headers=[
            ("Set-Cookie", "a=1; Domain=localhost; Path=/"),
            ("Set-Cookie", "b=2;domain = .localhost"),
            ("Connection", "X-Hop"),
            ("X-Hop", "1"),
            ("Date", "now"),
            ("Content-Length", "0"),
        ],
    )
    assert port_traffic.answer_head(said) == [
        (b"set-cookie", b"a=1; Path=/"),
        (b"set-cookie", b"b=2"),
        (b"content-length", b"0"),
    ]


@pytest.mark.parametrize("status", [600, 999])
def test_an_unknown_status_is_refused(status: int) -> None:
    assert port_traffic.answer_head(h11.Response(status_code=status, headers=[])) is None


REQUEST = h11.Request(method="GET", target="/", headers=[("host", "h"), ("connection", "close")])
UPLOAD = h11.Request(method="PUT", target="/", headers=[("host", "h"), ("transfer-encoding", "chunked")])
GONE = {"type": "http.disconnect"}
NO_BODY = {"type": "http.request", "body": b"", "more_body": False}
MIB = 1 << 20


class Exchanged:
    """A client's view of an answer of these bytes; `stays` if it does not leave."""

    def __init__(
        self,
        answer: bytes,
        request: h11.Request = REQUEST,
        body: Sequence[Any] = (NO_BODY,),
        *,
        ends: bool = True,
    ) -> None:
        self.stopped = asyncio.Event()
        self.sent: list[Any] = []
        self.received = b""
        self._answer, self._request, self._ends = answer, request, ends
        self._body = list(body)

    async def run(self) -> Exchanged:
        async with joined() as (stream, far):
            answering = asyncio.ensure_future(self._serve(far))
            try:
                async with asyncio.timeout(60):
                    await PortExchange(stream, self._receive, self._send).run(self._request, self.stopped)
            finally:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def content(self) -> bytes:
        return b"".join(each["body"] for each in self.sent[1:])

    async def _serve(self, far: SessionStream) -> None:
        self.received += await far.reader.readuntil(b"\r\n\r\n")
        far.writer.write(self._answer)
        await far.writer.drain()
        if self._ends:
            far.writer.write_eof()
        while data := await far.reader.read(MIB):
            self.received += data

    async def _receive(self) -> Any:
        if not self._body:
            await asyncio.Event().wait()
        return self._body.pop(0)

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


@asynccontextmanager
async def joined() -> AsyncIterator[tuple[SessionStream, SessionStream]]:
    near, far = socket.socketpair()
    streams = [SessionStream(*await asyncio.open_unix_connection(sock=each)) for each in (near, far)]
    try:
        yield streams[0], streams[1]
    finally:
        for each in streams:
            each.writer.transport.abort()


def exchanged(answer: bytes, **more: Any) -> Exchanged:
    async def run() -> Exchanged:
        return await Exchanged(answer, **more).run()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (b"HTTP/1.0 200 OK\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_answers_of_each_form(answer: bytes, content: bytes) -> None:
    found = exchanged(answer)
    assert (found.status // 100, found.content) == (2, content)
    assert found.sent[-1]["more_body"] is False
    assert found.received.startswith(b"GET / HTTP/1.1\r\nhost: h\r\n")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "cannot read the answer"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "cannot read the answer"),
        (b"\0" * 100_000, "cannot read the answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000, "cannot read the answer"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * MIB, "cannot read the answer"),
        (b"HTTP/1.1 999 Odd\r\n\r\n", "its status is 999"),
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 10_000, "it is missing"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "cannot read the answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "cannot read the answer"),
    ],
)
def test_malformed_answers_are_errors_of_the_sandbox(answer: bytes, why: str) -> None:
    """However much of it there is: it is read no further than to its limit."""
    with pytest.raises(BadAnswer, match=why):
        exchanged(answer, ends=len(answer) < 1000)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nno size\r\n",
    ],
)
def test_an_answer_that_ends_too_early_is_cut(answer: bytes) -> None:
    """It must not look whole: the client's connection is closed."""
    with pytest.raises(AnswerCut):
        exchanged(answer)


def test_a_body_is_passed_on_as_it_comes() -> None:
    parts = [{"type": "http.request", "body": b"x" * MIB, "more_body": True}] * 3
    found = exchanged(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", request=UPLOAD, body=[*parts, NO_BODY], ends=False
    )
    assert found.content == b"ok"
    # It had answered before it knew the body, so the rest of that is not waited for.
    assert dict(found.sent[0]["headers"])[b"connection"] == b"close"


def test_a_client_that_leaves_ends_it() -> None:
    assert exchanged(b"", body=[NO_BODY, GONE], ends=False).sent == []


def test_a_server_that_stops_says_so() -> None:
    async def run(answer: bytes) -> Exchanged:
        found = Exchanged(answer, ends=False)
        running = asyncio.ensure_future(found.run())
        while not found.received or (answer and not found.sent):
            await asyncio.sleep(0)
        found.stopped.set()
        return await running

    with pytest.raises(SandboxUnavailable, match="the server stops"):
        asyncio.run(run(b""))
    with pytest.raises(AnswerCut, match="the server stops"):
        asyncio.run(run(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"))


CONNECT = {"type": "websocket.connect"}
Serve = Callable[[SessionStream], Awaitable[None]]


class Client:
    """A client's messages, and the answers it is given."""

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
    key, more = port_traffic.handshake(offered)
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
    """Return a server that accepts, and sends bytes that do not have to be frames."""

    async def serve(far: SessionStream) -> None:
        await accepted(far)
        for each in frames:
            far.writer.write(each)
            await far.writer.drain()
        await far.reader.read()

    return serve


def frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return bytes(Frame(opcode, data, fin).serialize(mask=False))


def test_messages_pass_both_ways_and_an_end_is_reported() -> None:
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


def test_a_removed_session_closes_the_client() -> None:
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
def test_malformed_messages_close_the_channel(frames: list[bytes], code: int) -> None:
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
def test_a_refused_websocket_is_an_error_of_the_sandbox(answer: bytes) -> None:
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

    with pytest.raises(BadAnswer, match="was not offered"):
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
