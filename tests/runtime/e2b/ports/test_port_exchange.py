"""Answers of a server in a session, which may say anything, or nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import h11
import pytest

from holdfast.runtime.e2b.e2b_errors import SandboxUnavailable
from holdfast.runtime.e2b.ports.port_exchange import AnswerCut, BadAnswer, PortExchange
from holdfast.runtime.serve.session_links import SessionStream

REQUEST = h11.Request(method="GET", target="/", headers=[("host", "h"), ("connection", "close")])
UPLOAD = h11.Request(method="PUT", target="/", headers=[("host", "h"), ("transfer-encoding", "chunked")])
GONE = {"type": "http.disconnect"}
NO_BODY = {"type": "http.request", "body": b"", "more_body": False}
MIB = 1 << 20


class Exchanged:
    """What a client gets of an answer of these bytes; `stays` if it does not leave."""

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
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 10_000, "it does not begin"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "cannot read the answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "cannot read the answer"),
    ],
)
def test_what_is_no_answer_is_an_error_of_the_sandbox(answer: bytes, why: str) -> None:
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
