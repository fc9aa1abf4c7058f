"""Connections to a server that heed signals: requests, messages, the end of a waiting, callbacks.

Written by hand, as `../aio/async_connection.py` is. A signal that arrives just before a system call, or to
another thread, does not interrupt the call, and Python runs its handler when that has returned. So each wait
without limit is made of brief ones; nothing that was received or sent is lost between them. The limits that
httpx has would end the request instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import httpcore
import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from holdfast.errors import InvalidArgument
from holdfast.runtime.client.channel_calls import ChannelCall
from holdfast.runtime.client.client_address import ClientAddress

LOOK_UP = 1.0  # seconds between two looks whether a signal came


def next_message(connection: ClientConnection) -> str | bytes:
    """Return the next message.

    A signal that arrives just before a system call, or to another thread, does not interrupt the call, and
    Python runs its handler when that has returned: so the wait is repeated. Parts of a message are not lost.

    Raises:
        ConnectionClosed: the connection is lost.
    """
    while True:
        with suppress(TimeoutError):
            return connection.recv(LOOK_UP)


IDLE_SECONDS = 5.0
"""How long a connection is kept for the next request."""


def carrier(address: ClientAddress) -> httpx.BaseTransport:
    """Return the carrier of requests to a server."""
    return HeedingCarrier(address)


class HeedingCarrier(httpx.BaseTransport):
    """The connections of one client to one server."""

    def __init__(self, address: ClientAddress) -> None:
        secure = address.url.startswith("https:")
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context() if secure else None,
            max_connections=None,
            keepalive_expiry=IDLE_SECONDS,
            uds=address.socket,
            network_backend=_HeedingBackend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return its answer, whose body is still to be read.

        Raises:
            httpx.TransportError: there is no connection, or it broke.
        """
        assert isinstance(request.stream, httpx.SyncByteStream)
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            got = self._pool.handle_request(sent)
        return httpx.Response(
            got.status, headers=got.headers, stream=_AnswerParts(got), extensions=dict(got.extensions)
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class _AnswerParts(httpx.SyncByteStream):
    def __init__(self, got: httpcore.Response) -> None:
        self._got = got

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._got.iter_stream()

    def close(self) -> None:
        self._got.close()


class _HeedingStream(httpcore.NetworkStream):
    """One connection."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if timeout is not None:
            return self._stream.read(max_bytes, timeout)
        while True:
            with suppress(httpcore.ReadTimeout):
                return self._stream.read(max_bytes, LOOK_UP)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if timeout is not None:
            self._stream.write(buffer, timeout)
            return
        sock, left = self._stream.get_extra_info("socket"), memoryview(buffer)
        try:
            sock.settimeout(LOOK_UP)
            while left:
                with suppress(TimeoutError):  # after which nothing has been sent
                    left = left[sock.send(left) :]
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _HeedingStream(self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _HeedingBackend(httpcore.NetworkBackend):
    """Opens connections, for which httpx has a limit of its own."""

    def __init__(self) -> None:
        self._plain = httpcore.SyncBackend()

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _HeedingStream(self._plain.connect_tcp(*args, **options))

    def connect_unix_socket(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _HeedingStream(self._plain.connect_unix_socket(*args, **options))


_FAULTS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _FAULTS as error:
        kind = getattr(httpx, type(error).__name__, httpx.TransportError)  # both have the same names
        raise kind(str(error) or type(error).__name__) from error


class RemoteSends(Protocol):
    """Something by which a message reaches the server."""

    def send(self, message: str, /) -> None:
        """Send it."""


class RemoteWaking:
    """The target of `Patience.end`: the server is asked to end the wait, and answers as usual."""

    def __init__(self, connection: RemoteSends, message: str) -> None:
        self._connection, self._message = connection, message

    def hang_up(self) -> None:
        """Ask it."""
        with suppress(ConnectionClosed):
            self._connection.send(self._message)


def settled(call: ChannelCall[Any]) -> str | None:
    """Return the line that a callback gave as an answer.

    Raises:
        InvalidArgument: one returned a coroutine. What was called continues.
    """
    line: str | None = call.line
    call.line = None
    returned, call.returned = [*call.returned, line], []
    for each in returned:
        if inspect.isawaitable(each):
            if inspect.iscoroutine(each):
                each.close()
            raise InvalidArgument(
                "cannot use a coroutine function as a callback here: nothing would await it",
                hint="use AsyncHoldfast, or a plain function",
            )
    return line
