"""Bounds what mitmproxy reads of HTTP/1, in both directions: it would keep it all, and wait for the end.

What is left in a connection's buffer after its reader has run is unfinished: a head, the line of a chunk's
size, trailers, or requests that came too early. One limit holds for all of it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import partial
from typing import Any

from h11._receivebuffer import ReceiveBuffer
from mitmproxy.proxy import commands, events, layers
from mitmproxy.proxy.layers import http
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestProtocolError,
    ResponseEndOfMessage,
    ResponseProtocolError,
)

UNFINISHED = 64 << 10
"""Size limit of what is unfinished in one direction of a connection."""
INFORMATIONAL = 16
"""Answers of kind 1xx before the one to a request."""
_INFORMATIONAL = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9]{2}[ \r\n]")
_LONG = "too long: a head, a line or trailers"
_SAYABLE = (
    "Connection killed",
    "Certificate verify failed",
    "connection cancelled",
    "[Errno",
    "too ",
)
_TOO_LARGE = b"HTTP/1.1 431 Too Large\r\nConnection: close\r\n\r\n"

Commands = Generator[commands.Command, Any, None]


def narrow() -> None:
    """Set the limits, for all connections of this process."""
    _http1.make_error_response = partial(_brief, _http1.make_error_response)
    one, client = _http1.Http1Connection, _http1.Http1Client
    one._handle_event = _wrapped(one._handle_event, _bounded)
    one.read_body = _wrapped(one.read_body, _without_trailers)
    client.read_headers = _wrapped(client.read_headers, _final)
    # What comes after a change of protocol is passed on, and nothing of it is kept.
    http.tcp.TCPLayer = partial(layers.TCPLayer, ignore=True)


def _wrapped(read: Any, around: Any) -> Any:
    """Return a method with another around it. A partial function would not become a method."""

    def wrapped(self: Any, event: events.Event) -> Commands:
        return around(read, self, event)  # type: ignore[no-any-return]

    return wrapped


def _brief(made: Any, status: int, message: str = "") -> bytes:
    """Return an answer about an error in our words: mitmproxy's contain what was sent, maybe a value."""
    text = message if message.startswith(_SAYABLE) else "the request, or the host's response, is malformed"
    return bytes(made(status, f"holdfast: {text}"))


def _bounded(read: Any, self: Any, event: events.Event) -> Commands:
    yield from read(self, event)
    if isinstance(event, events.DataReceived) and len(self.buf) > UNFINISHED:
        heading = self.state == self.read_headers and isinstance(self, _http1.Http1Server)
        yield from _give_up(self, _LONG, _TOO_LARGE if heading else b"")


def _give_up(self: Any, why: str, answer: bytes = b"") -> Commands:
    """End the connection, and the exchange that it is used for."""
    self.buf = ReceiveBuffer()
    self.state = self.done
    if answer:
        yield commands.SendData(self.conn, answer)
    yield commands.CloseConnection(self.conn)
    if self.stream_id is not None:
        client = isinstance(self, _http1.Http1Server)
        code = ErrorCode.GENERIC_CLIENT_ERROR if client else ErrorCode.GENERIC_SERVER_ERROR
        error = (RequestProtocolError if client else ResponseProtocolError)(self.stream_id, why, code)
        yield ReceiveHttp(error)


def _without_trailers(read: Any, self: Any, event: events.Event) -> Commands:
    """Leave out the trailers of an answer, as RFC 9110 allows; a request that has some is refused.

    mitmproxy has none, and says so by an exception, after which the connection would hang.
    """
    try:
        yield from read(self, event)
    except NotImplementedError:
        if isinstance(self, _http1.Http1Server):
            yield from _give_up(self, "trailers")
        else:
            yield ReceiveHttp(ResponseEndOfMessage(self.stream_id))
            yield from self.mark_done(response=True)


def _final(read: Any, self: Any, event: events.Event) -> Commands:
    """Leave out informational answers; mitmproxy would take the first of them for the answer."""
    if isinstance(event, events.DataReceived) and self.request is not None:
        while _INFORMATIONAL.match(bytes(self.buf)[:16]) and self.buf.maybe_extract_lines() is not None:
            count = getattr(self.request, "informational", 0) + 1
            self.request.informational = count
            if count > INFORMATIONAL:
                yield from _give_up(self, "too many informational answers")
                return
        if not self.buf:
            return
    yield from read(self, event)
