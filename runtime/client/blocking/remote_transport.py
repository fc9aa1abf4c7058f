# Made by setup/blocking from ../aio/async_transport.py; do not edit.
"""The connections to one server: requests over HTTP, and calls that wait over WebSockets, one call each."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import httpx
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect, unix_connect

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, OutcomeUnknown, ProtocolError, ServerUnavailable
from holdfast.runtime.client import client_address, http_call
from holdfast.runtime.client.blocking import remote_connection
from holdfast.runtime.client.blocking.remote_connection import RemoteWaking
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
_JSON = {"Content-Type": "application/json"}
_BYTES = {"Content-Type": "application/octet-stream"}
_ONCE = ("POST", "PATCH")
"""Methods of requests that do more if they are sent twice (RFC 9110, 9.2.2)."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
"""Failures before any of a request is sent."""


class RemoteLink:
    """One WebSocket, and what closes it."""

    def __init__(self, connection: ClientConnection, stack: ExitStack) -> None:
        self.connection, self._stack = connection, stack

    def close(self) -> None:
        """Close it."""
        self._stack.close()


class RemoteTransport:
    """Sends requests and makes calls. `watcher` gets the steps of what requests begin."""

    def __init__(
        self,
        address: ClientAddress,
        headers: dict[str, str],
        watcher: Callable[[Step | None], None] | None = None,
    ) -> None:
        self._watcher = watcher
        self._address = address
        self._headers = headers
        self._http = httpx.Client(
            base_url=address.url,
            headers=self._headers,
            transport=remote_connection.carrier(address),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        )
        self._free: list[RemoteLink] = []
        self._closed = False

    def ask(self, call: HttpCall, patience: Patience | None = None) -> Any:
        """Return the answer to a request; with a patience, its end ends the server's waiting.

        Raises:
            HoldfastError: the error that it reports; ServerUnavailable: none came; OutcomeUnknown: none came
                to a request that was sent, and that does more if it is sent twice.
        """
        headers = {} if call.body is None else _JSON
        return self._answer(call, call.content, headers | self._held(patience))

    def send(self, call: HttpCall, content: Iterable[bytes] | bytes, patience: Patience | None = None) -> Any:
        """Return the answer to a request with this body; otherwise as `ask` does."""
        return self._answer(call, content, _BYTES | self._held(patience))

    def _held(self, patience: Patience | None) -> dict[str, str]:
        """Return the headers by which the waiting of a request can be ended."""
        if patience is None:
            return {}
        patience.begin()
        request, left = secrets.token_hex(16), patience.left()
        patience.hold(RemoteWaking(RemoteWaits(self), request))
        return {"X-Request-Id": request} | ({} if left is None else {PATIENCE_HEADER: f"{left:.3f}"})

    def _answer(
        self, call: HttpCall, content: Iterable[bytes] | bytes | None, headers: dict[str, str]
    ) -> Any:
        self._check()
        sys.audit("holdfast.asks", id(call), "server", f"{call.method} {call.path}")
        try:
            return self._received(call, content, headers)
        finally:
            sys.audit("holdfast.answered", id(call))

    def _received(
        self, call: HttpCall, content: Iterable[bytes] | bytes | None, headers: dict[str, str]
    ) -> Any:
        if self._watcher is not None and call.method != "GET" and isinstance(content, bytes | None):
            return self._watched(call, content, headers, StepLines(self._watcher))
        try:
            got = self._http.request(
                call.method,
                call.path,
                params=call.query,
                content=content,
                headers=self._address.headers | headers,
            )
        except httpx.TransportError as error:
            raise self._lost(call, error) from None
        return http_call.answer(got.status_code, got.content)

    def _watched(
        self, call: HttpCall, content: bytes | None, headers: dict[str, str], lines: StepLines
    ) -> Any:
        headers = self._address.headers | headers | http_call.HEADERS
        try:
            with self._http.stream(
                call.method, call.path, params=call.query, content=content, headers=headers
            ) as got:
                if got.headers.get("Content-Type") != http_call.MEDIA_TYPE:
                    return http_call.answer(got.status_code, got.read())
                for piece in got.iter_bytes():
                    lines.feed(piece)
        except httpx.TransportError as error:
            raise self._lost(call, error) from None
        return lines.answer()

    @contextmanager
    def bytes_of(self, call: HttpCall, headers: dict[str, str]) -> Iterator[Iterator[bytes]]:
        """Yield the body of the answer to a request, as it comes."""
        self._check()
        headers = self._address.headers | headers
        try:
            with self._http.stream(call.method, call.path, params=call.query, headers=headers) as got:
                if got.status_code >= 400:
                    http_call.answer(got.status_code, got.read())
                yield got.iter_bytes()
        except httpx.TransportError as error:
            raise self._unavailable(error) from None

    def result(self, call: ChannelCall[Result]) -> Result:
        """Make a call, and return its result. Leaving it early ends nothing in the session."""
        for _ in self.heard(call):
            pass
        if call.result is None:
            raise ProtocolError("cannot understand the server: the call ended without a result")
        return call.result

    def heard(self, call: ChannelCall[Any]) -> Generator[None]:
        """Make a call, and yield after each message that it has taken; over a lost connection it continues.

        Raises:
            HoldfastError: the error that it ends in.
        """
        attempt = 0
        while not call.ended:
            link = self._link(attempt)
            connection = link.connection
            try:
                call.patience.begin()
                connection.send(call.opening())
                call.opened()
                call.linked(connection)
                call.patience.hold(RemoteWaking(connection, call.closing()))
                while not call.ended:
                    reply = call.receive(remote_connection.next_message(connection))
                    attempt = 0
                    line = remote_connection.settled(call)
                    reply = reply if line is None else call.answered(line)
                    if reply is not None:
                        connection.send(reply)
                    yield
            except (ConnectionClosed, ServerStopped) as error:
                attempt += 1
                pause = client_address.pause(attempt, error)
                if pause is None:
                    raise self._unavailable("the connection was lost") from None
                time.sleep(pause)
            finally:
                self._leave(link, reusable=call.ended)

    def close(self) -> None:
        """Close all connections. Sessions and what runs in them continue."""
        self._closed = True
        while self._free:
            self._free.pop().close()
        self._http.close()

    def _leave(self, link: RemoteLink, *, reusable: bool) -> None:
        if reusable and not self._closed and len(self._free) < MOST_FREE:
            self._free.append(link)
        else:
            link.close()

    def _link(self, attempt: int) -> RemoteLink:
        while self._free and attempt == 0:
            found = self._free.pop()
            if found.connection.protocol.state is State.OPEN:
                return found
            found.close()
        try:
            return self._connected()
        except InvalidStatus as error:
            raise _refused(error) from None
        except ServerUnavailable:
            raise
        except (OSError, TimeoutError, InvalidHandshake) as error:
            pause = client_address.pause(attempt, error) if attempt > 0 else None
            if pause is None:
                raise self._unavailable(error) from None
        time.sleep(pause)
        return self._link(attempt + 1)

    def _connected(self) -> RemoteLink:
        self._address.check()
        options: dict[str, Any] = {
            "additional_headers": self._address.headers | self._headers,
            "compression": None,
            "max_size": MOST_MESSAGE,
            "open_timeout": CONNECT_SECONDS,
            "close_timeout": 1,
        }
        if self._address.socket is None:
            opening = connect(self._address.channels, **options)
        else:
            opening = unix_connect(self._address.socket, uri=self._address.channels, **options)
        stack = ExitStack()
        return RemoteLink(stack.enter_context(opening), stack)

    def _check(self) -> None:
        try:
            self._address.check()
        except ServerUnavailable:
            raise
        except OSError as error:
            raise self._unavailable(error) from None

    def _lost(self, call: HttpCall, error: httpx.TransportError) -> HoldfastError:
        """Return the error of a request without an answer: unless it never left, its outcome is unknown."""
        if call.method not in _ONCE or isinstance(error, _NOT_SENT):
            return self._unavailable(error)
        return OutcomeUnknown(
            "cannot say whether it was done: the connection to the server was lost before it answered",
            hint="look at what it was to change before you send it again",
        )

    def _unavailable(self, why: object) -> ServerUnavailable:
        place = self._address.socket or self._address.url
        return ServerUnavailable(
            f"cannot reach the server at {place}: {plain(str(why) or type(why).__name__, 200)}",
            hint="`holdfast serve` starts one",
        )


class RemoteWaits:
    """The requests for which a server waits: one whose id is sent waits no longer, and is answered."""

    def __init__(self, transport: RemoteTransport) -> None:
        self._transport = transport

    def send(self, request: str) -> None:
        """Send the id of a request."""
        with suppress(HoldfastError):
            self._transport.ask(HttpCall("DELETE", place("waits", request)))


def _refused(error: InvalidStatus) -> HoldfastError:
    try:
        return error_of(json.loads(error.response.body or b""))
    except ValueError:
        return ProtocolError(f"cannot understand the server: it answered {error.response.status_code}")
