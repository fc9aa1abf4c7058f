"""Visits of people to ports of sessions: a browser's credentials, and each side's view of the other.

A link has a token in its address. A browser that follows it gets the token as a cookie for that name alone,
and the address again without it. The session sees neither: it sees a visitor of `localhost`, as a server for
development expects, and nothing that is meant for this server. The cookie goes with whatever a browser sends
to that name, so it counts only for requests of that name's own pages, and for a person who goes there.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.http_doors.admission import App, Receive, Scope, Send
from holdfast.runtime.http_doors.door_sockets import ADMITTED
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.sessions import preview_grants
from holdfast.runtime.store.rows import SessionRow

Headers = list[tuple[bytes, bytes]]
_MayStay = Callable[[preview_grants.Grant, float], bool]
"""Returns whether what is granted now still lets a visitor in."""
PARAMETER = preview_grants.PARAMETER.encode()
COOKIE, SECURE_COOKIE = b"holdfast-preview", b"__Host-holdfast-preview"
"""The second for names below a domain with TLS: there browsers refuse one from a different name."""
GIVEN = "holdfast.preview_tokens"
"""The key of a request's scope under which the tokens are that were taken out of it."""
ENDED = "holdfast.visit_ended"
"""The key of a request's scope for an event that is set when its visit ends."""
MOST_COOKIES = 8
LOOK_SECONDS = 2.0
"""How long a visit continues at most after its link was revoked."""
_FORWARDED = frozenset(
    {b"forwarded", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-port", b"x-forwarded-server"}
)
_LOCATION = re.compile(
    rb"(?:https?:)?//(?:localhost|127\.0\.0\.1|\[::1\]):(\d{1,5})(?=[/?#]|$)(.*)", re.DOTALL
)


def disclosed(scope: Scope) -> Scope:
    """Return a request without the tokens of a visitor, which are noted under `GIVEN`."""
    query, from_link = _without_parameter(scope.get("query_string", b""))
    headers, from_cookies = _without_cookies(scope.get("headers", ()))
    return {**scope, "query_string": query, "headers": headers, GIVEN: (from_link, from_cookies)}


def _without_parameter(query: bytes) -> tuple[bytes, list[bytes]]:
    parts = query.split(b"&") if PARAMETER in query else []
    given = [part.partition(b"=")[2] for part in parts if part.partition(b"=")[0] == PARAMETER]
    if not given:
        return query, []
    return b"&".join(part for part in parts if part.partition(b"=")[0] != PARAMETER), given[:1]


def _without_cookies(headers: Iterable[tuple[bytes, bytes]]) -> tuple[Headers, list[bytes]]:
    kept: Headers = []
    given: list[bytes] = []
    for name, value in headers:
        if name == b"cookie" and COOKIE in value:
            pairs = [each.strip() for each in value.split(b";")]
            own = [each for each in pairs if each.partition(b"=")[0].strip() in (COOKIE, SECURE_COOKIE)]
            given += [each.partition(b"=")[2].strip() for each in own]
            not_passed = {b"", *own}
            if rest := b"; ".join(each for each in pairs if each not in not_passed):
                kept.append((name, rest))
        elif name != b"referer" or PARAMETER + b"=" not in value:
            kept.append((name, value))
    return kept, given[:MOST_COOKIES]


def is_of_other_page(scope: Scope) -> bool:
    """Return whether a foreign page has made this request, or a WebSocket of unknown origin.

    A person who follows a link from a foreign page is welcome: nothing changes, and no page reads the answer.
    """
    headers = dict(scope["headers"])
    own = {scheme + headers.get(b"host", b"").lower() for scheme in (b"http://", b"https://")}
    origin = headers.get(b"origin")
    if origin is not None and origin.lower() not in own:
        return True
    if scope["type"] == "websocket":
        return origin is None
    site = headers.get(b"sec-fetch-site")
    if site in (None, b"same-origin", b"none"):
        return False
    goes = (headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")) == (b"navigate", b"document")
    return not (goes and scope["method"] in ("GET", "HEAD"))


def is_browsing(scope: Scope) -> bool:
    """Return whether a person's browser asks for a page."""
    return scope["type"] == "http" and b"text/html" in dict(scope["headers"]).get(b"accept", b"")


class PreviewVisits:
    """Lets visitors in.

    Args:
        callers: whose sessions they visit.
        stamp: shows which token the server has.
        traffic: the application that reaches the ports.
        secure: whether browsers come over TLS.
    """

    def __init__(self, callers: Callers, stamp: str, traffic: App, *, secure: bool = False) -> None:
        self._callers, self._stamp, self._traffic, self._secure = callers, stamp, traffic, secure

    def admitted(self, scope: Scope, row: SessionRow, port: int) -> App | None:
        """Return the application that answers a request to a port; None if neither a link nor a grant to
        everyone lets it in.
        """
        grant, now = preview_grants.of(row.details, port), time.time()
        if grant is None:
            return None
        from_link, from_cookies = scope[GIVEN]
        there = partial(self._admits, session=row.id, port=port)
        token = next((each for each in from_link if there(grant, now, each)), None)
        if token is not None and is_browsing(scope) and scope["method"] in ("GET", "HEAD"):
            return self._arrival(token, grant.ends_at() - now)
        if token is None and not is_of_other_page(scope):
            token = next((each for each in from_cookies if there(grant, now, each)), None)
        if token is not None:
            return self._visit(row.id, port, partial(there, token=token))
        if not grant.is_public(now):
            return None
        scope[ADMITTED] = False
        return self._visit(row.id, port, preview_grants.Grant.is_public)

    def _admits(
        self, grant: preview_grants.Grant, now: float, token: bytes, *, session: str, port: int
    ) -> bool:
        return grant.admits(token, self._stamp, session, port, now)

    def _arrival(self, token: bytes, seconds: float) -> App:
        """Return the application that sets the cookie and redirects to the address without the token."""
        name = SECURE_COOKIE if self._secure else COOKIE
        cookie = name + b"=" + token + b"; Path=/; HttpOnly; SameSite=Lax; Max-Age=%d" % max(1, int(seconds))
        cookie += b"; Secure" if self._secure else b""

        async def arrived(scope: Scope, receive: Receive, send: Send) -> None:
            query = scope["query_string"]
            # Two slashes would begin the name of another host.
            path = b"/" + scope["raw_path"].lstrip(b"/\\")
            headers = [
                (b"location", path + (b"?" + query if query else b"")),
                (b"set-cookie", cookie),
                (b"cache-control", b"no-store"),
                (b"referrer-policy", b"no-referrer"),
                (b"content-length", b"0"),
            ]
            await send({"type": "http.response.start", "status": 303, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

        return arrived

    def _visit(self, session: str, port: int, may_stay: _MayStay) -> App:
        async def visited(scope: Scope, receive: Receive, send: Send) -> None:
            ended = asyncio.Event()
            seen = {**scope, "headers": as_seen(scope["headers"], port), ENDED: ended}
            looking = asyncio.create_task(self._look(session, port, may_stay, ended))
            try:
                await self._traffic(seen, receive, answers(send, port))
            finally:
                looking.cancel()

        return visited

    async def _look(self, session: str, port: int, may_stay: _MayStay, ended: asyncio.Event) -> None:
        """Set an event when the grant of a visit has ended, or the server stops."""
        there = True
        while there and not self._callers.stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._callers.stopped.wait()
            with suppress(HoldfastError):  # asked again soon
                row = await self._callers.brief.run(
                    lambda: self._callers.controller("system:preview").store.find_session(session)
                )
                grant = None if row is None else preview_grants.of(row.details, port)
                there = grant is not None and may_stay(grant, time.time())
        ended.set()


def as_seen(headers: Iterable[tuple[bytes, bytes]], port: int) -> Headers:
    """Return the headers of a request as the session sees them: sent to `localhost`, by its own pages.

    Servers for development answer to that name (Jupyter, Vite, Django, Rails), and compare it with the
    origin. Foreign origins stay, for the session's server to judge.
    """
    said = list(headers)
    host = dict(said).get(b"host", b"").lower()
    local = b"localhost:%d" % port
    own = {scheme + host for scheme in (b"http://", b"https://")}
    found: Headers = []
    for name, value in said:
        if name == b"host":
            found.append((name, local))
        elif name == b"origin" and value.lower() in own:
            found.append((name, b"http://" + local))
        elif name == b"referer" and (start := _origin(value)).lower() in own:
            found.append((name, b"http://" + local + value[len(start) :]))
        elif name not in _FORWARDED:
            found.append((name, value))
    return found


def _origin(url: bytes) -> bytes:
    found = re.match(rb"https?://[^/?#]*", url)
    return found[0] if found else b""


def answers(send: Send, port: int) -> Send:
    """Return where the session's answers go: redirects to its own name lead to the visitor's, and the
    visitor's own cookie is not for it to set."""

    async def passed(message: MutableMapping[str, Any]) -> None:
        if "headers" in message:
            message = {**message, "headers": list(_answered(message["headers"], port))}
        await send(message)

    return passed


def _answered(headers: Iterable[tuple[bytes, bytes]], port: int) -> Iterable[tuple[bytes, bytes]]:
    for name, value in headers:
        if name == b"set-cookie" and value.partition(b"=")[0].strip() in (COOKIE, SECURE_COOKIE):
            continue
        if name == b"location" and (found := _LOCATION.fullmatch(value)) and int(found[1]) == port:
            yield name, found[2] if found[2].startswith(b"/") else b"/" + found[2]
        else:
            yield name, value


async def tell(scope: Scope, send: Send, status: int, why: str) -> None:
    """Answer a person's browser with a line of text."""
    body = (plain(why, 2000) + "\n").encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
        *([(b"retry-after", b"1")] if status == 503 else []),
    ]
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    await send({"type": f"{prefix}.response.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})
