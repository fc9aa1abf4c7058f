"""Visits to ports: the requests a link lets in, and the headers that session and browser see of each
other."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.doors.walked_doors import ONE, OTHER, TOKEN, TWO, WalkedDoors, links, run

from holdfast.runtime.e2b.port_traffic import PortTraffic
from holdfast.runtime.e2b.sandbox_access import PORT
from holdfast.runtime.serve import preview_visits
from holdfast.runtime.sessions import preview_grants

Headers = list[tuple[bytes, bytes]]
HTML = [(b"accept", b"text/html,*/*")]
HOST = f"3000-work-{ONE}.localhost:8420".encode()
(LINK, (COOKIE, _), (SECURE, _)) = links(ONE)
QUERY = LINK[1]
TOKEN_OF_LINK = QUERY.partition("=")[2].encode()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the requests that reach a session, each of which gets a hostile answer."""
    found: list[Any] = []

    async def passed(self: Any, scope: Any, receive: Any, send: Any) -> None:
        found.append(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        headers = [
            (b"location", b"http://localhost:3000/next?a=1"),
            (b"set-cookie", b"holdfast-preview=x; Path=/"),
            (b"set-cookie", b"__Host-holdfast-preview=x; Secure; Path=/"),
            (b"set-cookie", b"own=1"),
        ]
        await send({"type": "http.response.start", "status": 302, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setattr(PortTraffic, "__call__", passed)
    return found


def asked(
    folder: Path,
    headers: Headers,
    query: str = "",
    *,
    method: str = "GET",
    path: str = "/a",
    host: bytes = HOST,
) -> tuple[int | None, list[tuple[bytes, bytes]]]:
    """Return the status and headers of the answer to a request."""
    sent: list[Any] = []

    async def steps(doors: WalkedDoors) -> None:
        app = doors.doors.app

        async def noted(scope: Any, receive: Any, send: Any) -> None:
            async def kept(message: Any) -> None:
                sent.append(message)
                await send(message)

            await app(scope, receive, kept)

        doors.doors.app = noted
        await doors.ask(method, path, [(b"host", host), *headers], query)

    run(folder, steps)
    first = sent[0]
    return first.get("status"), list(first.get("headers", ()))


def test_a_browser_gets_a_cookie_and_the_address_without_the_token(tmp_path: Path, seen: list[Any]) -> None:
    status, headers = asked(tmp_path, HTML, f"a=1&{QUERY}&b=2", path="/x")
    found = dict(headers)
    assert (status, found[b"location"], seen) == (303, b"/x?a=1&b=2", [])
    assert found[b"set-cookie"].startswith(
        b"holdfast-preview=" + TOKEN_OF_LINK + b"; Path=/; HttpOnly; SameSite=Lax;"
    )
    assert b"domain" not in found[b"set-cookie"].lower()
    assert (found[b"referrer-policy"], found[b"cache-control"]) == (b"no-referrer", b"no-store")


def test_the_address_never_leads_to_another_host(tmp_path: Path, seen: list[Any]) -> None:
    for number, path in enumerate(("//evil.example/x", "/\\evil.example/x", "///evil.example/x")):
        status, headers = asked(tmp_path / str(number), HTML, QUERY, path=path)
        assert (status, dict(headers)[b"location"]) == (303, b"/evil.example/x")


def test_the_session_sees_neither_token_nor_cookie_and_a_visitor_of_localhost(
    tmp_path: Path, seen: list[Any]
) -> None:
    own = b"http://" + HOST
    headers = [
        (b"cookie", b"a=1; " + COOKIE[0][1] + b"; b=2; " + SECURE[0][1]),
        (b"origin", own),
        (b"referer", own + b"/page"),
        (b"x-forwarded-host", b"elsewhere"),
        (b"sec-fetch-site", b"same-origin"),
    ]
    status, answer = asked(tmp_path, headers, "q=1")
    assert status == 302
    (scope,) = seen
    found = dict(scope["headers"])
    assert found[b"cookie"] == b"a=1; b=2"
    assert found[b"host"] == b"localhost:3000"
    assert found[b"origin"] == b"http://localhost:3000"
    assert found[b"referer"] == b"http://localhost:3000/page"
    assert b"x-forwarded-host" not in found
    assert TOKEN_OF_LINK not in repr((scope["headers"], scope["query_string"])).encode()
    assert [each for each in answer if each[0] in (b"set-cookie", b"location")] == [
        (b"location", b"/next?a=1"),
        (b"set-cookie", b"own=1"),
    ]


def test_no_token_is_passed_on_whoever_lets_the_request_in(tmp_path: Path, seen: list[Any]) -> None:
    bearer = [(b"authorization", f"Bearer {TOKEN}".encode())]
    link = b"http://" + HOST + b"/?" + QUERY.encode()
    asked(tmp_path, [*bearer, *COOKIE, (b"referer", link)], QUERY)
    asked(tmp_path / "curl", [(b"accept", b"*/*")], f"{QUERY}&x=1")
    assert [(each["query_string"], b"cookie" in dict(each["headers"])) for each in seen] == [
        (b"", False),
        (b"x=1", False),
    ]
    assert TOKEN_OF_LINK not in repr([each["headers"] for each in seen]).encode()


@pytest.mark.parametrize(
    ("headers", "method", "lets_in"),
    [
        ([], "GET", True),
        ([(b"sec-fetch-site", b"same-origin")], "POST", True),
        ([(b"sec-fetch-site", b"none")], "GET", True),
        ([(b"origin", b"http://" + HOST)], "POST", True),
        (
            [
                (b"sec-fetch-site", b"cross-site"),
                (b"sec-fetch-mode", b"navigate"),
                (b"sec-fetch-dest", b"document"),
            ],
            "GET",
            True,
        ),
        (
            [
                (b"sec-fetch-site", b"same-site"),
                (b"sec-fetch-mode", b"navigate"),
                (b"sec-fetch-dest", b"iframe"),
            ],
            "GET",
            False,
        ),
        (
            [
                (b"sec-fetch-site", b"same-site"),
                (b"sec-fetch-mode", b"navigate"),
                (b"sec-fetch-dest", b"document"),
            ],
            "POST",
            False,
        ),
        ([(b"sec-fetch-site", b"same-site"), (b"sec-fetch-mode", b"no-cors")], "GET", False),
        ([(b"origin", f"http://3000-{TWO}.localhost:8420".encode())], "POST", False),
        ([(b"origin", b"null")], "POST", False),
        ([(b"origin", b"http://localhost:8420")], "GET", False),
        ([(b"origin", b"http://" + HOST)], "WS", True),
        ([(b"origin", f"http://4000-{ONE}.localhost:8420".encode())], "WS", False),
        ([], "WS", False),
    ],
)
def test_a_cookie_admits_requests_of_its_own_pages(
    headers: Headers, method: str, lets_in: bool, tmp_path: Path, seen: list[Any]
) -> None:
    """And a person who follows a link there; no page of another port, session or place, by whatever means."""
    status, _ = asked(tmp_path, [*COOKIE, *headers], method=method)
    assert (status != 403, len(seen)) == (lets_in, int(lets_in))


def test_a_cookie_of_another_does_not_hide_the_own_one(tmp_path: Path, seen: list[Any]) -> None:
    """Pages of other names below a domain can set some for the whole domain."""
    forged = b"holdfast-preview=1.x; holdfast-preview=; " + COOKIE[0][1]
    asked(tmp_path, [(b"cookie", forged)])
    assert len(seen) == 1
    asked(tmp_path / "many", [(b"cookie", b"holdfast-preview=x; " * 2000 + COOKIE[0][1])])
    assert len(seen) == 1


def test_a_port_is_public_if_that_was_asked_for(tmp_path: Path, seen: list[Any]) -> None:
    async def steps(doors: WalkedDoors) -> None:
        store = doors.doors.callers.controller("agent:test").store
        host = [(b"host", f"3000-{OTHER}.localhost".encode())]
        assert (await doors.ask("GET", "/", host)).status == 403
        preview_grants.grant(store, OTHER, 3000, seconds=60, public=True, now=time.time())
        assert (await doors.ask("GET", "/", host)).status == 302
        assert (await doors.ask("GET", "/", [(b"host", f"3001-{OTHER}.localhost".encode())])).status == 403
        preview_grants.revoke(store, OTHER, 3000)
        assert (await doors.ask("GET", "/", host)).status == 403

    run(tmp_path, steps)
    assert [each[PORT].port for each in seen] == [3000]


def test_a_person_gets_a_line_of_text(tmp_path: Path) -> None:
    async def steps(doors: WalkedDoors) -> None:
        answer = await doors.ask("GET", "/", [(b"host", HOST), *HTML])
        assert (answer.status, answer.body[:24]) == (403, b"cannot answer: the port ")
        store = doors.doors.callers.controller("agent:test").store
        store.update_session(ONE, state="suspended")
        answer = await doors.ask("GET", "/", [(b"host", HOST), *HTML, *COOKIE])
        assert answer.status == 503
        assert b"session sa is suspended: `holdfast resume` continues it" in answer.body

    run(tmp_path, steps)


def test_a_visit_ends_when_its_link_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_visits, "LOOK_SECONDS", 0.01)

    async def stays(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        store = self._callers.controller("agent:test").store
        preview_grants.revoke(store, TWO, 3000)
        async with asyncio.timeout(60):
            await scope[preview_visits.ENDED].wait()

    monkeypatch.setattr(PortTraffic, "__call__", stays)

    async def steps(doors: WalkedDoors) -> None:
        (_, (cookie, _), _) = links(TWO)
        host = [(b"host", f"3000-{TWO}.localhost".encode())]
        assert (await doors.ask("GET", "/", host + cookie)).status == 200
        assert (await doors.ask("GET", "/", host + cookie)).status == 403

    run(tmp_path, steps)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (b"http://localhost:3000/x?y#z", b"/x?y#z"),
        (b"//127.0.0.1:3000", b"/"),
        (b"https://[::1]:3000?q", b"/?q"),
        (b"http://localhost:3001/x", b"http://localhost:3001/x"),
        (b"http://localhost:3000.evil.example/", b"http://localhost:3000.evil.example/"),
        (b"http://localhost:3000@evil.example/", b"http://localhost:3000@evil.example/"),
        (b"/x", b"/x"),
        (b"http://elsewhere.example/", b"http://elsewhere.example/"),
    ],
)
def test_a_redirect_to_the_servers_own_name_leads_to_the_visitors(said: bytes, kept: bytes) -> None:
    assert list(preview_visits._answered([(b"location", said)], 3000)) == [(b"location", kept)]
