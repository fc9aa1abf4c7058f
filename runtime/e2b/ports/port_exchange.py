"""One request and its answer: both streamed, between a client and the server in the session.

The session decides what comes back, and when. Heads have a limit; a body is read as fast as the client takes
it; what is no answer is an error of the sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import h11

from holdfast.errors import HoldfastError
from holdfast.runtime.e2b.e2b_errors import SandboxUnavailable
from holdfast.runtime.e2b.ports import port_heads
from holdfast.runtime.http_doors.door_guard import Receive, Send
from holdfast.runtime.serve.session_links import SessionStream

PIECE = 64 << 10
MOST_INFORMATIONAL = 16
"""Answers with a status of 1xx, each of which may be followed by another."""


class AnswerCut(HoldfastError):
    """An answer of a server in a session that ended before its end."""

    code = "answer_cut"


class BadAnswer(SandboxUnavailable):
    """What a server in a session answered is no HTTP."""

    code = "bad_answer"


class PortExchange:
    """The exchange of one request."""

    def __init__(self, stream: SessionStream, receive: Receive, send: Send) -> None:
        self._stream, self._receive, self._send = stream, receive, send
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=port_heads.LONGEST)
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
                        raise BadAnswer("cannot read the answer: it does not begin")
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
        headers = port_heads.answer(found)
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
        """Send the body to the session, and return when the client is gone."""
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
