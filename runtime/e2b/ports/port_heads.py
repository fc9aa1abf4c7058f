"""Heads of requests and answers on their way to and from a port.  Pure.

What is meant for this server, its tokens above all, is not passed on to the session; what a session says of
other names than its own is not passed on to browsers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import h11

from holdfast.runtime.e2b.ports.port_names import SANDBOX_ID, SANDBOX_PORT

Headers = list[tuple[bytes, bytes]]
LONGEST = 64 << 10
"""Bytes of a head, or of a line that frames a body."""
KEY, ACCESS, TRAFFIC = b"x-api-key", b"x-access-token", b"e2b-traffic-access-token"
_HOP_BY_HOP = frozenset(
    (
        b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
        b"transfer-encoding upgrade expect http2-settings"
    ).split()
)
"""They are about one connection: RFC 9110, section 7.6.1."""
_FOR_SERVER = frozenset({KEY, ACCESS, TRAFFIC, SANDBOX_ID, SANDBOX_PORT, b"holdfast-actor", b"host"})
_SOCKET = b"sec-websocket-"
_DOMAIN = re.compile(rb";[ \t]*domain[ \t]*=[^;]*", re.IGNORECASE)
_FIRST, _LAST = 200, 599


def request(
    scope: Mapping[str, Any],
    host: bytes,
    is_token: Callable[[bytes], bool],
    more: Iterable[tuple[bytes, bytes]],
) -> h11.Request:
    """Return the request for the server in the session; `more` are further headers.

    Args:
        scope: the request as it came.
        host: the name it is sent to.
        is_token: tells whether something is the server's own token.
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


def answer(found: h11.Response) -> Headers | None:
    """Return the headers of an answer for the client; None if no client would understand its status."""
    return kept(found.headers) if _FIRST <= found.status_code <= _LAST else None


def kept(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of an answer that are for the client."""
    said: Headers = [(bytes(name), bytes(value)) for name, value in headers]
    left_out = _HOP_BY_HOP | _named_by_connection(said) | {b"date"}  # the server adds its own
    found = [(name, value) for name, value in said if name not in left_out and not name.startswith(_SOCKET)]
    # A cookie for all names of the domain would go to other sandboxes, and to the server.
    return [(name, _DOMAIN.sub(b"", value) if name == b"set-cookie" else value) for name, value in found]


def subprotocols(scope: Mapping[str, Any], is_token: Callable[[bytes], bool]) -> list[str]:
    """Return the subprotocols that a client offers to the session's server."""
    offered = [str(each) for each in scope.get("subprotocols", ())]
    return [each for each in offered if not is_token(each.removeprefix("bearer.").encode("utf-8", "replace"))]


def _named_by_connection(headers: Headers) -> set[bytes]:
    named = b",".join(value for name, value in headers if name == b"connection")
    return {each.strip().lower() for each in named.split(b",")}


def _has_token(name: bytes, value: bytes, is_token: Callable[[bytes], bool]) -> bool:
    return name == b"authorization" and is_token(value.partition(b" ")[2].strip())
