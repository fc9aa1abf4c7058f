"""Traffic to the port of a sandbox: one request and its answer, or one WebSocket, with the port's server.

Headers for this server, its tokens above all, are not passed on to the session; a session's headers about
other names than its own are not passed on to browsers. The session decides the content of an answer, and
its time: heads and messages have a limit, a body is read as fast as the client takes it, and a malformed
answer is an error of the sandbox. Permission to connect was decided before.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import h11
from starlette.requests import HTTPConnection
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, Protocol

from holdfast.errors import HoldfastError, PortClosed
from holdfast.runtime.e2b import connect_wire
from holdfast.runtime.e2b.connect_wire import SandboxUnavailable
from holdfast.runtime.e2b.sandbox_access import (
    ACCESS,
    KEY,
    PORT,
    SANDBOX_ID,
    SANDBOX_PORT,
    TRAFFIC,
    PortName,
    SandboxTokens,
    refuse,
)
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.guest_rpc import session_sockets
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.http_doors.admission import Admission, Receive, Scope, Send
from holdfast.runtime.lifetimes import session_ends
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.preview_visits import ENDED
from holdfast.runtime.serve.session_links import SessionLinks, SessionStream

Headers = list[tuple[bytes, bytes]]
LONGEST_HEAD = 64 << 10
"""Bytes of a head, or of a line that frames a body."""
_HOP_BY_HOP = frozenset(
    (
        b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
        b"transfer-encoding upgrade expect http2-settings"
    ).split()
)
"""They are about one connection: RFC 9110, section 7.6.1."""
_FOR_SERVER = frozenset({KEY, ACCESS, TRAFFIC, SANDBOX_ID, SANDBOX_PORT, b"holdfast-actor", b"host"})
_NOT_OF_SESSION = frozenset({b"date", b"clear-site-data", b"alt-svc"})
"""The server adds the first; the others change the browser's state of more names than this one."""
_SOCKET = b"sec-websocket-"
_DOMAIN = re.compile(rb";[ \t]*domain[ \t]*=[^;]*", re.IGNORECASE)
_FIRST, _LAST = 200, 599


def request_head(
    scope: Mapping[str, Any],
    host: bytes,
    is_token: Callable[[bytes], bool],
    more: Iterable[tuple[bytes, bytes]],
) -> h11.Request:
    """Return the request for the server in the session; `more` are further headers.

    Args:
        scope: the request as it came.
        host: the name it is sent to.
        is_token: tells whether something is the server's own token, or an access key.
    """
    said: Headers = list(scope["headers"])
    left_out = _HOP_BY_HOP | _FOR_SERVER | _named_by_connection(said)
    headers: Headers = [(b"host", host)]
    headers += [
        (name, value)
        for name, value in said
        if name not in left_out and not name.startswith(_SOCKET) and not _has_token(name, value, is_token)
    ]
    if any(name == b"transfer-encoding" for name, _ in said):
        headers = [each for each in headers if each[0] != b"content-length"]
        headers.append((b"transfer-encoding", b"chunked"))
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    return h11.Request(method=scope.get("method", "GET").encode(), target=target, headers=[*headers, *more])


def answer_head(found: h11.Response) -> Headers | None:
    """Return the headers of an answer for the client; None if no client would understand its status."""
    return kept_headers(found.headers) if _FIRST <= found.status_code <= _LAST else None


def kept_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of an answer that the client gets."""
    said: Headers = [(bytes(name), bytes(value)) for name, value in headers]
    left_out = _HOP_BY_HOP | _named_by_connection(said) | _NOT_OF_SESSION
    found = [(name, value) for name, value in said if name not in left_out and not name.startswith(_SOCKET)]
    # A cookie for all names of the domain would go to other sandboxes, and to the server.
    return [(name, _DOMAIN.sub(b"", value) if name == b"set-cookie" else value) for name, value in found]


def offered_subprotocols(scope: Mapping[str, Any], is_token: Callable[[bytes], bool]) -> list[str]:
    """Return the subprotocols that a client offers to the session's server."""
    offered = [str(each) for each in scope.get("subprotocols", ())]
    return [each for each in offered if not is_token(each.removeprefix("bearer.").encode("utf-8", "replace"))]


def _named_by_connection(headers: Headers) -> set[bytes]:
    named = b",".join(value for name, value in headers if name == b"connection")
    return {each.strip().lower() for each in named.split(b",")}


def _has_token(name: bytes, value: bytes, is_token: Callable[[bytes], bool]) -> bool:
    return name == b"authorization" and is_token(value.partition(b" ")[2].strip())


PIECE = 64 << 10
MOST_INFORMATIONAL = 16
"""Answers with a status of 1xx, each of which can be followed by another."""


class AnswerCut(HoldfastError):
    """An answer of a server in a session that ended too early."""

    code = "answer_cut"


class BadAnswer(SandboxUnavailable):
    """The answer of a server in a session is not HTTP."""

    code = "bad_answer"


class PortExchange:
    """The exchange of one request."""

    def __init__(self, stream: SessionStream, receive: Receive, send: Send) -> None:
        self._stream, self._receive, self._send = stream, receive, send
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        self._whole = False
        self._begun = False

    async def run(self, request: h11.Request, stopped: asyncio.Event) -> None:
        """Send the request, pass on the answer; the client's leaving ends it, as does the server's stop.

        Raises:
            BadAnswer, SandboxUnavailable: there was no answer.
            AnswerCut: there is no more of it.
        """
        self._stream.writer.write(self._http.send(request) or b"")
        answering = asyncio.create_task(self._answer())
        await first_of(answering, self._pass_body_on(), stopped.wait())
        if answering.done() and not answering.cancelled():
            await answering
        elif stopped.is_set():
            if self._begun:
                raise AnswerCut("cannot send the rest of an answer: the server stops")
            raise SandboxUnavailable("cannot wait for the sandbox: the server stops", hint="try again soon")

    async def _answer(self) -> None:
        informational = 0
        while True:
            event = await self._next()
            match event:
                case h11.InformationalResponse():
                    informational += 1
                    if informational > MOST_INFORMATIONAL:
                        raise BadAnswer("cannot read the answer: it is missing")
                case h11.Response():
                    await self._begin(event)
                case h11.Data():
                    await self._send(
                        {"type": "http.response.body", "body": bytes(event.data), "more_body": True}
                    )
                case h11.EndOfMessage():
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
                case _:
                    raise self._bad("its connection was closed")

    async def _begin(self, found: h11.Response) -> None:
        headers = answer_head(found)
        if headers is None:
            raise BadAnswer(f"cannot read the answer: its status is {found.status_code}")
        if not self._whole:  # the rest of the body would be read, and dropped, for as long as it is sent
            headers.append((b"connection", b"close"))
        self._begun = True
        await self._send({"type": "http.response.start", "status": found.status_code, "headers": headers})

    async def _next(self) -> Any:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._stream.reader.read(PIECE))
        except h11.RemoteProtocolError as error:
            raise self._bad(str(error)) from None
        except ConnectionError:
            raise self._bad("the connection to the sandbox was lost") from None
        return event

    def _bad(self, why: str) -> HoldfastError:
        if self._begun:
            return AnswerCut(f"cannot send the rest of an answer: {why}")
        return BadAnswer(f"cannot read the answer: {why}")

    async def _pass_body_on(self) -> None:
        """Send the body to the session, and return when the client has left."""
        while (message := await self._receive())["type"] != "http.disconnect":
            if self._whole:
                continue
            self._whole = not message.get("more_body", False)
            # A server that has answered may read no more.
            with suppress(ConnectionError, h11.LocalProtocolError):
                if body := message.get("body", b""):
                    self._stream.writer.write(self._http.send(h11.Data(data=body)) or b"")
                if self._whole:
                    self._stream.writer.write(self._http.send(h11.EndOfMessage()) or b"")
                await self._stream.writer.drain()


async def first_of(task: asyncio.Task[None], *others: Coroutine[Any, Any, Any]) -> None:
    """Wait for the first to end, and cancel the others."""
    tasks = [task, *map(asyncio.ensure_future, others)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


MOST_MESSAGE = 4 << 20
"""Bytes of a message of a session."""
MOST_REFUSAL = 64 << 10
"""Bytes of an answer that refuses the WebSocket."""
HANDSHAKE_SECONDS = 60.0
CLOSE_SECONDS = 5.0
"""For the server in the session to close it as well."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_MESSAGES = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


def handshake(subprotocols: Sequence[str]) -> tuple[bytes, Headers]:
    """Return a new key, and the headers of a request that opens a WebSocket with it."""
    key = base64.b64encode(secrets.token_bytes(16))
    headers = [
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", key),
    ]
    if subprotocols:
        headers.append((b"sec-websocket-protocol", ", ".join(subprotocols).encode("latin-1", "replace")))
    return key, headers


class PortSocket:
    """The two connections of one WebSocket."""

    def __init__(self, stream: SessionStream, receive: Receive, send: Send) -> None:
        self._stream, self._receive, self._send = stream, receive, send
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        self._frames = Protocol(CLIENT, max_size=MOST_MESSAGE)
        self._message = bytearray()
        self._text = self._failed = False

    async def run(
        self, request: h11.Request, key: bytes, subprotocols: Sequence[str], stopped: asyncio.Event
    ) -> None:
        """Open it, and pass messages on until an end closes it, or the server stops.

        Raises:
            BadAnswer: the answer from the session does not open one.
        """
        await self._receive()  # the client's wish to connect
        for event in (request, h11.EndOfMessage()):
            self._stream.writer.write(self._http.send(event) or b"")
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                found = await self._head()
                if found.status_code != 101:
                    await self._refuse(found)
                    return
        except TimeoutError:
            raise BadAnswer("cannot open a WebSocket: the server in the sandbox does not answer") from None
        except (h11.RemoteProtocolError, ConnectionError):
            raise BadAnswer("cannot open a WebSocket: the sandbox does not answer with HTTP") from None
        await self._accept(found, key, subprotocols)
        from_session = asyncio.create_task(self._from_session(self._http.trailing_data[0]))
        await first_of(from_session, self._from_client(from_session), self._stop(stopped))
        if from_session.done() and not from_session.cancelled():
            await from_session

    async def _head(self) -> h11.Response | h11.InformationalResponse:
        for _ in range(MOST_INFORMATIONAL):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._stream.reader.read(PIECE))
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                return event
        raise BadAnswer("cannot open a WebSocket: the server in the sandbox does not begin its answer")

    async def _refuse(self, found: Any) -> None:
        """Answer as the session's server does, with at most a page of its reason."""
        headers, body = answer_head(found), bytearray()
        if headers is None:
            raise BadAnswer(f"cannot open a WebSocket: the answer has status {found.status_code}")
        while len(body) < MOST_REFUSAL:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._stream.reader.read(PIECE))
            if not isinstance(event, h11.Data):
                break
            body += event.data
        kept = [(name, value) for name, value in headers if name != b"content-length"]
        start = {"type": "websocket.http.response.start", "status": found.status_code, "headers": kept}
        await self._send(start)
        await self._send({"type": "websocket.http.response.body", "body": bytes(body[:MOST_REFUSAL])})

    async def _accept(self, found: Any, key: bytes, subprotocols: Sequence[str]) -> None:
        said = {bytes(name): bytes(value) for name, value in found.headers}
        expected = base64.b64encode(hashlib.sha1(key + _GUID).digest())  # noqa: S324
        chosen = said.get(b"sec-websocket-protocol")
        right = said.get(b"sec-websocket-accept") == expected and b"sec-websocket-extensions" not in said
        name = None if chosen is None else chosen.decode("latin-1")
        if not right or (name is not None and name not in subprotocols):
            raise BadAnswer("cannot open a WebSocket: the sandbox chose a subprotocol that was not offered")
        cookies = [each for each in kept_headers(found.headers) if each[0] == b"set-cookie"]
        await self._send({"type": "websocket.accept", "subprotocol": name, "headers": cookies})

    async def _from_session(self, data: bytes) -> None:
        """Pass messages on to the client until the session closes the connection, then close the client's."""
        code, reason = 1011, "the connection to the sandbox was lost"
        with suppress(ConnectionError):
            while True:
                self._frames.receive_data(data)
                for event in self._frames.events_received():
                    if isinstance(event, Frame) and event.opcode in _MESSAGES and not self._failed:
                        await self._take_in(event)
                self._failed = self._failed or self._frames.parser_exc is not None
                await self._flush()
                if self._frames.close_rcvd is not None or self._failed:
                    break
                if not (data := await self._stream.reader.read(PIECE)):
                    break
        if (closed := self._frames.close_rcvd) is not None:
            code, reason = _sendable(closed.code), closed.reason
        elif (failed := self._frames.close_sent) is not None:
            code, reason = _sendable(failed.code), failed.reason
        with suppress(RuntimeError):  # the client has closed it before
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _take_in(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.CONT:
            self._text = frame.opcode is Opcode.TEXT
        self._message += frame.data
        if not frame.fin:
            return
        whole, self._message = bytes(self._message), bytearray()
        if not self._text:
            await self._send({"type": "websocket.send", "bytes": whole})
            return
        try:
            await self._send({"type": "websocket.send", "text": whole.decode()})
        except UnicodeDecodeError:
            self._failed = True
            self._frames.fail(1007, "a text is not UTF-8")

    async def _from_client(self, from_session: asyncio.Task[None]) -> None:
        """Pass messages on to the session until the client closes it, and wait for the session's end."""
        with suppress(ConnectionError, InvalidState):
            while (message := await self._receive())["type"] != "websocket.disconnect":
                text = message.get("text")
                if text is not None:
                    self._frames.send_text(text.encode("utf-8", "replace"))
                else:
                    self._frames.send_binary(message["bytes"])
                await self._flush()
            self._frames.send_close(_sendable(message.get("code", 1001)), (message.get("reason") or "")[:40])
            await self._flush()
        await asyncio.wait({from_session}, timeout=CLOSE_SECONDS)

    async def _stop(self, stopped: asyncio.Event) -> None:
        await stopped.wait()
        with suppress(RuntimeError):
            await self._send({"type": "websocket.close", "code": 1012, "reason": "the server stops"})

    async def _flush(self) -> None:
        for data in self._frames.data_to_send():
            if data:  # empty is the end, which follows when the connection is closed
                self._stream.writer.write(data)
        await self._stream.writer.drain()


def _sendable(code: int) -> int:
    """Return a code that an end can send: 1004 to 1006 and 1015 mean that none was sent."""
    reserved = code in (1004, 1005, 1006, 1015)
    return code if 1000 <= code < 5000 and not reserved and not 1016 <= code < 3000 else 1000


class PortTraffic:
    """Connects the callers that the door has admitted."""

    def __init__(self, callers: Callers, tokens: SandboxTokens, admission: Admission) -> None:
        self._callers, self._tokens, self._admission = callers, tokens, admission
        self._links = SessionLinks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Connect to the port, and pass on both ways."""
        name: PortName = scope[PORT]
        host: list[bytes] = []

        def connect() -> Any:
            caller = SandboxCaller(HTTPConnection(scope), self._callers, self._tokens)
            session = caller.session(name.sandbox)
            session_ends.note_use(caller.holdfast().context, session.row, time.time())
            host.append(_host(scope, name, SandboxFacts.of(session.row)))
            line = SessionChannel(caller.holdfast().context, lambda: session.row)
            return session_sockets.port_socket(line, name.port)

        websocket = scope["type"] == "websocket"
        try:
            async with self._links.opened(name.sandbox, connect, websocket=websocket) as stream:
                is_token, stopped = self._admission.is_ours, scope.get(ENDED, self._callers.stopped)
                if websocket:
                    offered = offered_subprotocols(scope, is_token)
                    key, more = handshake(offered)
                    request = request_head(scope, host[0], is_token, more)
                    await PortSocket(stream, receive, send).run(request, key, offered, stopped)
                else:
                    request = request_head(scope, host[0], is_token, [(b"connection", b"close")])
                    await PortExchange(stream, receive, send).run(request, stopped)
        except AnswerCut:
            raise
        except PortClosed:
            await refuse(scope, send, name, 502, f"port {name.port} of the sandbox: the port is not open")
        except HoldfastError as error:
            await refuse(scope, send, name, connect_wire.status_of(error), connect_wire.sentence(error))


def _host(scope: Scope, name: PortName, facts: SandboxFacts | None) -> bytes:
    """Return the name under which the server in the session sees a request."""
    if facts is not None and facts.request_host:
        return facts.request_host.replace("${PORT}", str(name.port)).encode()
    if name.domain is None:
        return f"localhost:{name.port}".encode()
    return bytes(dict(scope["headers"]).get(b"host", b"localhost"))
