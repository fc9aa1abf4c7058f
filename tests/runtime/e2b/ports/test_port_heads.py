"""What of a request reaches a session, and what of its answer reaches a client."""

from __future__ import annotations

from typing import Any

import h11
import pytest

from holdfast.runtime.e2b.ports import port_heads

TOKEN = b"0123456789abcdef"


def is_token(given: bytes) -> bool:
    return given == TOKEN


def scope(*headers: tuple[bytes, bytes], query: bytes = b"", **more: Any) -> dict[str, Any]:
    said = {"method": "POST", "raw_path": b"/a%20b", "query_string": query, "headers": list(headers)}
    return said | more


def test_a_request_is_passed_on_as_it_is() -> None:
    made = port_heads.request(
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
    made = port_heads.request(scope(*secret, (b"cookie", b"c=1")), b"h", is_token, [])
    assert list(made.headers) == [(b"host", b"h"), (b"cookie", b"c=1")]
    kept = port_heads.request(scope((b"authorization", b"Bearer its-own")), b"h", is_token, [])
    assert (b"authorization", b"Bearer its-own") in list(kept.headers)
    offered = scope(subprotocols=["chat", "bearer." + TOKEN.decode(), TOKEN.decode()])
    assert port_heads.subprotocols(offered, is_token) == ["chat"]


def test_a_body_has_one_length() -> None:
    """Two that differ would let the session's server and this one disagree about where a request ends."""
    both = scope((b"content-length", b"3"), (b"transfer-encoding", b"chunked"))
    assert list(port_heads.request(both, b"h", is_token, []).headers)[1:] == [
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
    assert port_heads.answer(said) == [
        (b"set-cookie", b"a=1; Path=/"),
        (b"set-cookie", b"b=2"),
        (b"content-length", b"0"),
    ]


@pytest.mark.parametrize("status", [600, 999])
def test_a_status_that_no_client_knows_is_none(status: int) -> None:
    assert port_heads.answer(h11.Response(status_code=status, headers=[])) is None
