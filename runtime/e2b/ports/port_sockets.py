"""One WebSocket between a client and the server in the session: opened on both sides, then passed on."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import h11
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, Protocol

from holdfast.runtime.e2b.ports import port_heads
from holdfast.runtime.e2b.ports.port_exchange import MOST_INFORMATIONAL, PIECE, BadAnswer, first_of
from holdfast.runtime.e2b.ports.port_heads import Headers
from holdfast.runtime.http_doors.door_guard import Receive, Send
from holdfast.runtime.serve.session_links import SessionStream

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
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=port_heads.LONGEST)
        self._frames = Protocol(CLIENT, max_size=MOST_MESSAGE)
        self._message = bytearray()
        self._text = self._failed = False

    async def run(
        self, request: h11.Request, key: bytes, subprotocols: Sequence[str], stopped: asyncio.Event
    ) -> None:
        """Open it, and pass messages on until an end closes it, or the server stops.

        Raises:
            BadAnswer: what answers in the session opens none.
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
        """Answer as the server in the session does, with as much as a page of its reason."""
        headers, body = port_heads.answer(found), bytearray()
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
            raise BadAnswer("cannot open a WebSocket: the sandbox accepts another one than it was asked for")
        cookies = [each for each in port_heads.kept(found.headers) if each[0] == b"set-cookie"]
        await self._send({"type": "websocket.accept", "subprotocol": name, "headers": cookies})

    async def _from_session(self, data: bytes) -> None:
        """Pass messages on to the client until the session closes it, and close it then."""
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
    """Return a code that an end may send: those from 1004 to 1006 and 1015 say that none was sent."""
    reserved = code in (1004, 1005, 1006, 1015)
    return code if 1000 <= code < 5000 and not reserved and not 1016 <= code < 3000 else 1000
