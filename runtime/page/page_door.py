"""The door for browsers: the files of the page, and the exchange of a ticket for a key.

The files hold nothing that is secret, so strangers get them. All that a page knows of sessions it asks of our
own API, with its key. Its policy lets no script run that is not one of these files, and no request leave for
another host: whatever a session prints stays text even if the page had a mistake.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast.base import actors
from holdfast.errors import InvalidArgument
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Admission, App, Refusal, Scope, Send
from holdfast.runtime.http_doors.door_sockets import ADMITTED
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.access_key_requests import PageVisitor
from holdfast.runtime.serve.callers import chosen_actor
from holdfast.runtime.serve.request_gate import ServedDoor

BUILT = Path(__file__).parent / "built"
NOT_BUILT = "the page of this server has not been built: `setup/page` in a checkout of Holdfast builds it\n"
TICKETS, KEYS = "/page/tickets", "/page/keys"
ACTOR = "person"
"""The actor of a page if the holder of the token does not name one."""
KINDS: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # the terminal measures and colours its cells by these
        "connect-src 'self'",
        "img-src 'self' blob:",
        "font-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Cache-Control": "no-cache",
}
Visited = Callable[[AccessKey, str], Awaitable[None]]
"""Called for each page that a shared link opens: its key, and the actor of the page."""


class PageDoor(ServedDoor):
    """The door for browsers.

    Args:
        visited: notes a visit by a shared link.
    """

    single = frozenset({b"authorization"})
    acts_as = ACTOR

    def __init__(
        self, rules: Admission, keys: PageKeys, folder: Path = BUILT, visited: Visited | None = None
    ) -> None:
        super().__init__(rules)
        self._app: App = _application(rules, keys, folder, visited)

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request for the page, for one of its files, or for a ticket or key."""
        own = scope["type"] == "http" and (scope["path"] == "/" or scope["path"].startswith("/page/"))
        return scope if own else None

    async def opens(self, scope: Scope) -> App | Refusal:
        """Return the application; tickets are for holders of the token or of an access key."""
        if scope["path"] == TICKETS:
            given = admission.bearer_tokens(scope)
            return self.opened_by(given, scope, self._app) or admission.NO_TOKEN
        scope[ADMITTED] = False
        return self._app

    def audited(self, scope: Scope) -> bool:
        """Return whether a request gets a row in the audit trail: one for a ticket, or by a shared link."""
        return admission.KEY in scope or super().audited(scope)

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not admitted."""
        await admission.refuse(scope, send, refusal)


class _ByLink:
    """Exchanges shared links for keys of pages."""

    def __init__(self, rules: Admission, keys: PageKeys, visited: Visited | None) -> None:
        self._rules, self._keys, self._visited = rules, keys, visited

    async def __call__(self, request: Request, text: str) -> str | None:
        """Return a key for the page of a visitor with this link; None if the text is not one."""
        found = (
            None if self._rules.keys is None else self._rules.keys.visited(text.encode("utf-8", "replace"))
        )
        if found is None:
            return None
        request.scope[admission.KEY] = found
        if self._visited is not None:
            await self._visited(found, found.actor)
        return self._keys.key(PageVisitor(found.actor, found.id), time.time(), found.expires_at)


def _application(rules: Admission, keys: PageKeys, folder: Path, visited: Visited | None) -> App:
    by_link = _ByLink(rules, keys, visited)

    async def file(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        path = folder / name
        if not (folder / "index.html").is_file():
            return PlainTextResponse(NOT_BUILT, 503, headers=dict(HEADERS))
        if name not in {each.name for each in folder.iterdir()} or path.suffix not in KINDS:
            return PlainTextResponse("not a file of the page\n", 404, headers=dict(HEADERS))
        return Response(path.read_bytes(), headers={**HEADERS, "Content-Type": KINDS[path.suffix]})

    async def ticket(request: Request) -> Response:
        try:
            actor = actors.checked(chosen_actor(request, ACTOR))
        except InvalidArgument as error:
            return JSONResponse(answer_forms.body_of(error), answer_forms.status_of(error))
        by: AccessKey | None = request.scope.get(admission.KEY)
        visitor = PageVisitor(actor, by.id if by else "")
        ticket = keys.ticket(visitor, time.time(), by.expires_at if by else 0.0)
        return JSONResponse({"ticket": ticket}, 201)

    async def key(request: Request) -> Response:
        # In a header: a form of another site's page cannot set it, and it says for whose doors this is.
        given = admission.bearer_tokens(request.scope)
        told = given[0].decode("latin-1") if given else ""
        made = keys.exchanged(told, time.time()) or await by_link(request, told)
        if made is None:
            body = answer_forms.body(
                "unauthorized",
                "the link was used before, was revoked, or is too old",
                "`holdfast open` makes a new one",
            )
            return JSONResponse(body, 401)
        return JSONResponse({"key": made}, 201, headers={"Cache-Control": "no-store"})

    return Starlette(
        routes=[
            Route("/", file),
            Route(TICKETS, ticket, methods=["POST"]),
            Route(KEYS, key, methods=["POST"]),
            Route("/page/{name}", file),
        ]
    )
