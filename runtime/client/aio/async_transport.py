"""The connections to one server: requests over HTTP, and calls that wait over WebSockets, one call each."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar

import anyio
import httpx
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.protocol import State

from holdfast.base.text import plain
from holdfast.errors import (
    HoldfastError,
    OutcomeUnknown,
    ProtocolError,
    ServerUnavailable,
    SessionElsewhere,
)
from holdfast.runtime.client import client_address, http_call
from holdfast.runtime.client.aio import async_connection
from holdfast.runtime.client.aio.async_connection import AsyncWaking
from holdfast.runtime.client.channel_calls import ChannelCall, ServerStopped
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.client.client_errors import error_of
from holdfast.runtime.client.http_call import PATIENCE_HEADER, HttpCall, StepLines, place
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.operations.step import Step

Result = TypeVar("Result")
CONNECT_SECONDS = 10.0
MOST_MESSAGE = 64 << 20
MOST_FREE = 32
"""WebSockets that are kept for later calls."""
MOST_NODES = 5
"""Connections that a call tries because another node has its session."""
_JSON = {"Content-Type": "application/json"}
_BYTES = {"Content-Type": "application/octet-stream"}
_ONCE = ("POST", "PATCH")
"""Methods of requests that do more if they are sent twice (RFC 9110, 9.2.2)."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
"""Failures before any of a request is sent."""


class AsyncLink:
    """One WebSocket, with its close function; it is for calls of one session, or of any if that is empty."""

    def __init__(self, connection: ClientConnection, stack: AsyncExitStack, session: str) -> None:
        self.connection, self._stack, self.session = connection, stack, session

    async def close(self) -> None:
        """Close it."""
        await self._stack.aclose()


class AsyncTransport:
    """Sends requests and makes calls. `watcher` gets the steps of the operations that requests begin."""

    def __init__(
        self,
        address: ClientAddress,
        headers: dict[str, str],
        watcher: Callable[[Step | None], None] | None = None,
    ) -> None:
        self._watcher = watcher
        self._address = address
        self._headers = headers
        self._http = httpx.AsyncClient(
            base_url=address.url,
            headers=self._headers,
            transport=async_connection.carrier(address),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        )
        self._free: list[AsyncLink] = []
        self._closed = False
        self._by_session = False
        """A proxy in front of several nodes leads each connection to one of them."""

    async def ask(self, call: HttpCall, patience: Patience | None = None) -> Any:
        """Return the answer to a request; with a patience, its end ends the server's waiting.

        Raises:
            HoldfastError: the error that it reports; ServerUnavailable: none came; OutcomeUnknown: none came
                to a request that was sent, and that does more if it is sent twice.
        """
        headers = {} if call.body is None else _JSON
        return await self._answer(call, call.content, headers | self._held(patience))

    async def send(
        self, call: HttpCall, content: AsyncIterable[bytes] | bytes, patience: Patience | None = None
    ) -> Any:
        """Return the answer to a request with this body; otherwise as `ask` does."""
        return await self._answer(call, content, _BYTES | self._held(patience))

    def _held(self, patience: Patience | None) -> dict[str, str]:
        """Return the headers by which the waiting of a request can be ended."""
        if patience is None:
            return {}
        patience.begin()
        request, left = secrets.token_hex(16), patience.left()
        patience.hold(AsyncWaking(AsyncWaits(self), request))
        return {"X-Request-Id": request} | ({} if left is None else {PATIENCE_HEADER: f"{left:.3f}"})

    async def _answer(
        self, call: HttpCall, content: AsyncIterable[bytes] | bytes | None, headers: dict[str, str]
    ) -> Any:
        self._check()
        sys.audit("holdfast.asks", id(call), "server", f"{call.method} {call.path}")
        try:
            return await self._received(call, content, headers)
        finally:
            sys.audit("holdfast.answered", id(call))

    async def _received(
        self, call: HttpCall, content: AsyncIterable[bytes] | bytes | None, headers: dict[str, str]
    ) -> Any:
        if self._watcher is not None and call.method != "GET" and isinstance(content, bytes | None):
            return await self._watched(call, content, headers, StepLines(self._watcher))
        try:
            got = await self._http.request(
                call.method,
                call.path,
                params=call.query,
                content=content,
                headers=self._address.headers | headers,
            )
        except httpx.TransportError as error:
            raise self._lost(call, error) from None
        return http_call.answer(got.status_code, got.content)

    async def _watched(
        self, call: HttpCall, content: bytes | None, headers: dict[str, str], lines: StepLines
    ) -> Any:
        headers = self._address.headers | headers | http_call.HEADERS
        try:
            async with self._http.stream(
                call.method, call.path, params=call.query, content=content, headers=headers
            ) as got:
                if got.headers.get("Content-Type") != http_call.MEDIA_TYPE:
                    return http_call.answer(got.status_code, await got.aread())
                async for piece in got.aiter_bytes():
                    lines.feed(piece)
        except httpx.TransportError as error:
            raise self._lost(call, error) from None
        return lines.answer()

    @asynccontextmanager
    async def bytes_of(self, call: HttpCall, headers: dict[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the body of the answer to a request, as it comes."""
        self._check()
        headers = self._address.headers | headers
        try:
            async with self._http.stream(call.method, call.path, params=call.query, headers=headers) as got:
                if got.status_code >= 400:
                    http_call.answer(got.status_code, await got.aread())
                yield got.aiter_bytes()
        except httpx.TransportError as error:
            raise self._unavailable(error) from None

    async def result(self, call: ChannelCall[Result]) -> Result:
        """Make a call, and return its result. Leaving it early ends nothing in the session."""
        async for _ in self.heard(call):
            pass
        if call.result is None:
            raise ProtocolError("cannot understand the server: the call ended without a result")
        return call.result

    async def heard(self, call: ChannelCall[Any]) -> AsyncGenerator[None]:
        """Make a call, and yield after each processed message; the call continues over a new connection.

        Raises:
            HoldfastError: the error that it ends in.
        """
        attempt = 0
        while not call.ended:
            link = await self._link(attempt, call.session)
            connection = link.connection
            try:
                call.patience.begin()
                await connection.send(call.opening())
                call.opened()
                call.linked(connection)
                call.patience.hold(AsyncWaking(connection, call.closing()))
                while not call.ended:
                    reply = call.receive(await async_connection.next_message(connection))
                    attempt = 0
                    line = await async_connection.settled(call)
                    reply = reply if line is None else call.answered(line)
                    if reply is not None:
                        await connection.send(reply)
                    yield
            except SessionElsewhere as error:
                attempt += 1
                pause = client_address.pause(attempt, error) if attempt <= MOST_NODES else None
                if pause is None:
                    raise
                self._by_session = True
                await anyio.sleep(pause if link.session else 0)
            except (ConnectionClosed, ServerStopped) as error:
                attempt += 1
                pause = client_address.pause(attempt, error)
                if pause is None:
                    raise self._unavailable("the connection was lost") from None
                await anyio.sleep(pause)
            finally:
                await self._leave(link, reusable=call.ended)

    async def close(self) -> None:
        """Close all connections. Sessions and their programs continue."""
        self._closed = True
        while self._free:
            await self._free.pop().close()
        await self._http.aclose()

    async def _leave(self, link: AsyncLink, *, reusable: bool) -> None:
        if reusable and not self._closed and len(self._free) < MOST_FREE and self._suits(link):
            self._free.append(link)
        else:
            await link.close()

    def _suits(self, link: AsyncLink) -> bool:
        return bool(link.session) == self._by_session

    async def _link(self, attempt: int, session: str) -> AsyncLink:
        wanted = session if self._by_session else ""
        while attempt == 0 and (found := self._taken(wanted)) is not None:
            if found.connection.protocol.state is State.OPEN:
                return found
            await found.close()
        try:
            return await self._connected(wanted)
        except InvalidStatus as error:
            raise _refused(error) from None
        except ServerUnavailable:
            raise
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            pause = client_address.pause(attempt, error) if attempt > 0 else None
            if pause is None:
                raise self._unavailable(error) from None
        await anyio.sleep(pause)
        return await self._link(attempt + 1, session)

    def _taken(self, session: str) -> AsyncLink | None:
        """Take a free WebSocket for calls of a session."""
        found = next((each for each in reversed(self._free) if each.session == session), None)
        if found is not None:
            self._free.remove(found)
        return found

    async def _connected(self, session: str) -> AsyncLink:
        self._address.check()
        options: dict[str, Any] = {
            "additional_headers": self._address.headers | self._headers,
            "compression": None,
            "max_size": MOST_MESSAGE,
            "open_timeout": CONNECT_SECONDS,
            "close_timeout": 1,
        }
        if self._address.socket is None:
            opening = connect(self._address.channels(session), **options)
        else:
            opening = unix_connect(self._address.socket, uri=self._address.channels(session), **options)
        stack = AsyncExitStack()
        return AsyncLink(await stack.enter_async_context(opening), stack, session)

    def _check(self) -> None:
        try:
            self._address.check()
        except ServerUnavailable:
            raise
        except OSError as error:
            raise self._unavailable(error) from None

    def _lost(self, call: HttpCall, error: httpx.TransportError) -> HoldfastError:
        """Return the error of a request without an answer: unless it was never sent, its outcome is
        unknown."""
        if call.method not in _ONCE or isinstance(error, _NOT_SENT):
            return self._unavailable(error)
        return OutcomeUnknown(
            "cannot tell whether it was done: the connection to the server was lost before it answered",
            hint="check whether it took effect before you send it again",
        )

    def _unavailable(self, why: object) -> ServerUnavailable:
        place = self._address.socket or self._address.url
        return ServerUnavailable(
            f"cannot reach the server at {place}: {plain(str(why) or type(why).__name__, 200)}",
            hint="`holdfast serve` starts one",
        )


class AsyncWaits:
    """The requests for which a server waits: sending the id of one ends its wait with an answer."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def send(self, request: str) -> None:
        """Send the id of a request."""
        with suppress(HoldfastError):
            await self._transport.ask(HttpCall("DELETE", place("waits", request)))


def _refused(error: InvalidStatus) -> HoldfastError:
    try:
        return error_of(json.loads(error.response.body or b""))
    except ValueError:
        return ProtocolError(f"cannot understand the server: it answered {error.response.status_code}")
