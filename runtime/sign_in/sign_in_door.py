"""The door by which people sign in: to the web page by a browser, to the command line by a device code.

A person with an identity token of an issuer that the server trusts gets an access key with the rights of
their role. Browsers over TLS have it in a cookie that no script and no other site can use, and
exchange it for a short one, which the page keeps in memory. A cookie of `localhost` is sent to all ports of
that name, so pages there get the short one alone, by a code in the fragment of the address.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, NotPermitted
from holdfast.runtime.access.access_keys import AccessKey, AccessKeys
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import KEY, Admission, App, Refusal, Scope, Send
from holdfast.runtime.http_doors.door_sockets import ADMITTED
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.http_doors.sign_in_wire import (
    CHALLENGES,
    END,
    FIRST,
    ISSUERS,
    SHORT_KEYS,
    TOKENS,
    nonce_for,
)
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.request_gate import ServedDoor
from holdfast.runtime.sign_in.identity_tokens import Expected
from holdfast.runtime.sign_in.issuer_client import IssuerClient
from holdfast.runtime.sign_in.issuer_settings import UNIX, Person, SignInSettings
from holdfast.runtime.sign_in.name_owners import NameOwners
from holdfast.runtime.sign_in.pending_sign_ins import Begun, OneTimeCodes

BEGIN, BACK = f"{FIRST}/with/{{issuer}}", f"{FIRST}/with/{{issuer}}/back"
COOKIE, BEGUN_COOKIE = "__Host-holdfast", "__Host-holdfast-begun"
PLAIN_BEGUN_COOKIE = "holdfast-begun"
"""On `http://localhost`, where not all browsers take secure ones."""
BEGUN_SECONDS, ENTRY_SECONDS, SHORT_SECONDS = 600.0, 60.0, 600.0
USED_SECONDS = 3600.0
MOST_BODY = 64 << 10
RATE, BURST = 5.0, 50.0
"""Requests a second by which strangers have the server ask an issuer, or write."""
HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class SignInDoor(ServedDoor):
    """The door for people who sign in."""

    def __init__(
        self, rules: Admission, settings: SignInSettings, keys: AccessKeys, owners: NameOwners
    ) -> None:
        super().__init__(rules)
        proxy = settings.proxy
        self.single = frozenset(
            {
                b"authorization",
                *(name.lower().encode() for name in (proxy and (proxy.header, proxy.groups)) or () if name),
            }
        )
        self._proxy_header = proxy.header.lower().encode() if proxy else None
        self._settings = settings
        self._app = _Desk(settings, keys, owners).application()

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request to sign in or out."""
        path = scope["path"]
        return scope if scope["type"] == "http" and (path == FIRST or path.startswith(f"{FIRST}/")) else None

    async def opens(self, scope: Scope) -> App | Refusal:
        """Return the application, to a stranger; a proxy's header from anyone but the proxy is refused."""
        proxy = self._settings.proxy
        sent = any(name.lower() == self._proxy_header for name, _ in scope["headers"])
        if proxy is not None and sent and not proxy.trusts(_peer(scope)):
            return 403, "untrusted_proxy", f"the header {proxy.header} does not come from the proxy"
        scope[ADMITTED] = False
        return self._app

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not let in."""
        await admission.refuse(scope, send, refusal)


class _Desk:
    """The requests of one server."""

    def __init__(self, settings: SignInSettings, keys: AccessKeys, owners: NameOwners) -> None:
        self._settings, self._keys, self._owners = settings, keys, owners
        self._issuers = {each.name: IssuerClient(each, each.secret()) for each in settings.issuer}
        self._begun: OneTimeCodes[Begun] = OneTimeCodes(BEGUN_SECONDS)
        self._entries: OneTimeCodes[AccessKey] = OneTimeCodes(ENTRY_SECONDS)
        self._challenges: OneTimeCodes[None] = OneTimeCodes(BEGUN_SECONDS)
        self._used: OneTimeCodes[None] = OneTimeCodes(USED_SECONDS)
        self._rate = RequestRate(RATE, BURST)

    def application(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route(ISSUERS, self._told),
                Route(SHORT_KEYS, self._short, methods=["POST"]),
                Route(END, self._end, methods=["POST"]),
                Route(CHALLENGES, self._challenge, methods=["POST"]),
                Route(TOKENS, self._exchange, methods=["POST"]),
                Route(BEGIN, self._begin),
                Route(BACK, self._back),
            ]
        )

    async def _told(self, _: Request) -> Response:
        """Say how one can sign in: for the page, and for `holdfast login`."""
        issuers: list[dict[str, Any]] = []
        for each in self._settings.issuer:
            device = None
            if each.device is not None:
                device = {"client": each.device.client, "url": each.url, "scope": " ".join(each.scopes)}
            issuers.append({"name": each.name, "device": device})
        return JSONResponse(
            {"issuers": issuers, "proxy": self._settings.proxy is not None}, headers=dict(HEADERS)
        )

    async def _begin(self, request: Request) -> Response:
        """Send a browser to an issuer."""
        client = self._issuers.get(request.path_params["issuer"])
        if client is None:
            return _line("cannot sign in: the server does not have that issuer", 404)
        if (seconds := self._rate.refused()) is not None:
            return _too_many(seconds)
        name = BEGUN_COOKIE if self._settings.is_secure else PLAIN_BEGUN_COOKIE
        given = request.cookies.get(name, "")
        binding = given if len(given) == 43 and given.isascii() else secrets.token_urlsafe(32)
        begun = Begun(client.issuer.name, binding, secrets.token_urlsafe(32), secrets.token_urlsafe(48))
        state = secrets.token_urlsafe(32)
        try:
            there = await client.address(self._back_to(begun.issuer), state, begun.nonce, begun.verifier)
        except HoldfastError as error:
            return _line(str(error), answer_forms.status_of(error))
        self._begun.add(begun, time.time(), state)
        answer = RedirectResponse(there, 303, headers=dict(HEADERS))
        self._set(answer, name, binding, BEGUN_SECONDS, "lax")
        return answer

    async def _back(self, request: Request) -> Response:
        """Let in a browser that comes back from an issuer. It always continues to the page."""
        asked = request.query_params
        if any(len(asked.getlist(each)) > 1 for each in ("state", "code", "iss", "error")):
            return _line("cannot sign in: the issuer's answer is ambiguous", 400)
        if (seconds := self._rate.refused()) is not None:
            return _too_many(seconds)
        name = BEGUN_COOKIE if self._settings.is_secure else PLAIN_BEGUN_COOKIE
        found = self._begun.take(asked.get("state"), time.time())
        begun = found and found[1]
        bound = begun and hmac.compare_digest(request.cookies.get(name, "").encode(), begun.binding.encode())
        if not begun or not bound or begun.issuer != request.path_params["issuer"]:
            return _line(
                "cannot sign in: this browser did not begin this, or it took too long; begin again", 403
            )
        client = self._issuers[begun.issuer]
        try:
            there = await client.description()
            named = asked.get("iss")
            wanted = there.get("authorization_response_iss_parameter_supported") is True
            if named != client.issuer.url and (named is not None or wanted):
                raise NotPermitted("cannot sign in: the answer comes from a different issuer")
            if "code" not in asked:
                why = plain(asked.get("error", "nothing"), 80)
                raise NotPermitted(f"cannot sign in: the issuer {begun.issuer} says {why}")
            claims = await client.claims_for(
                asked["code"], self._back_to(begun.issuer), begun.nonce, begun.verifier
            )
            person = client.issuer.person_of(claims)
            key, text = await self._let_in(request, person, client.issuer.url, client.issuer.hours * 3600)
        except HoldfastError as error:
            return _line(str(error), answer_forms.status_of(error))
        if self._settings.is_secure:
            answer = RedirectResponse("/", 303, headers=dict(HEADERS))
            self._set(answer, COOKIE, text, key.expires_at - time.time(), "strict")
            return answer
        return RedirectResponse(f"/#entry={self._entries.add(key, time.time())}", 303, headers=dict(HEADERS))

    async def _short(self, request: Request) -> Response:
        """Give a page a short key, for its cookie, the code of its address, or the header of a proxy."""
        told = await _object(request)
        if told is None:
            return _refused(NotPermitted("cannot sign in: that is not a request of the page"))
        try:
            if "entry" in told:
                found = self._entries.take(told["entry"], time.time())
                key = found and found[1]
                lasting = float("inf")
            else:
                key, lasting = self._of_cookie(request), SHORT_SECONDS
            answer_text = ""
            if key is None and "entry" not in told:
                key, answer_text = await self._of_proxy(request)
            if key is None or not self._keys.is_valid(key):
                return _refused(None)
        except HoldfastError as error:
            return _refused(error)
        seconds = max(1.0, min(lasting, key.expires_at - time.time()))
        _noted(request, key)
        body = {"key": self._keys.short(key, seconds), "actor": key.actor, "seconds": int(seconds)}
        answer = JSONResponse(body, 201, headers=dict(HEADERS))
        if answer_text and self._settings.is_secure:
            self._set(answer, COOKIE, answer_text, key.expires_at - time.time(), "strict")
        return answer

    async def _end(self, request: Request) -> Response:
        """Sign out: revoke the key that is shown, wherever it is used."""
        if await _object(request) is None:
            return _refused(NotPermitted("cannot sign out: that is not a request of the page"))
        given = admission.bearer_tokens(request.scope)
        try:
            key = self._keys.opened_by(given[0]) if given else self._of_cookie(request)
            if key is None:
                return _refused(None)
            await asyncio.to_thread(self._keys.revoke, key.id)
        except HoldfastError as error:
            return _refused(error)
        _noted(request, key)
        answer = Response(status_code=204, headers=dict(HEADERS))
        if self._settings.is_secure:
            self._set(answer, COOKIE, "", 0, "strict")
        return answer

    async def _challenge(self, _: Request) -> Response:
        """Begin a sign-in of `holdfast login`."""
        if (seconds := self._rate.refused()) is not None:
            return _too_many(seconds)
        return JSONResponse(
            {"challenge": self._challenges.add(None, time.time())}, 201, headers=dict(HEADERS)
        )

    async def _exchange(self, request: Request) -> Response:
        """Give an access key for an identity token that was made for this server, once."""
        told = await _object(request)
        if told is None or not isinstance(token := told.get("id_token"), str):
            return _refused(NotPermitted("cannot sign in: the request is not one of `holdfast login`"))
        if (seconds := self._rate.refused()) is not None:
            return _too_many(seconds)
        now = time.time()
        given = self._challenges.take(challenge := told.get("challenge"), now)
        client = self._issuers.get(str(told.get("issuer")))
        device = client.issuer.device if client else None
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        try:
            if client is None or device is None:
                raise NotPermitted(
                    "cannot sign in: the server does not have that issuer for `holdfast login`"
                )
            if given is None or self._used.has(digest, now):
                raise NotPermitted("cannot sign in: it took too long, or was done before", hint="begin again")
            nonce = nonce_for(request.headers.get("host", ""), str(challenge))
            lax = device.nonce == "optional"
            expected = Expected(client.issuer.url, device.client, nonce, lax, given[0])
            claims = await client.verified(token, expected)
            if self._used.has(digest, now):  # by a request at the same time
                raise NotPermitted("cannot sign in: the token was used before", hint="begin again")
            self._used.add(None, now, digest)
            person = client.issuer.person_of(claims)
            key, text = await self._let_in(request, person, client.issuer.url, device.days * 86400)
        except HoldfastError as error:
            return _refused(error)
        body = {
            "key": text, "id": key.id, "actor": key.actor, "role": person.role, "team": person.team or None,
            "expires_at": key.expires_at,
        }  # fmt: skip
        return JSONResponse(body, 201, headers=dict(HEADERS))

    async def _let_in(
        self, request: Request, person: Person, issuer: str, seconds: float
    ) -> tuple[AccessKey, str]:
        def made() -> tuple[AccessKey, str]:
            self._owners.claim(person, issuer)
            return self._keys.sign_in(person.name, [person.role], seconds)

        key, text = await asyncio.to_thread(made)
        _noted(request, key)
        return key, text

    def _of_cookie(self, request: Request) -> AccessKey | None:
        """Return the key in the cookie; browsers that do not come over TLS have none."""
        text = request.cookies.get(COOKIE, "") if self._settings.is_secure else ""
        key = self._keys.opened_by(text.encode()) if text else None
        return key if key is not None and key.kind == "person" else None

    async def _of_proxy(self, request: Request) -> tuple[AccessKey | None, str]:
        """Return a key of the person whom the proxy names, and its text."""
        proxy = self._settings.proxy
        name = request.headers.get(proxy.header, "") if proxy else ""
        if proxy is None or not name or not proxy.trusts(_peer(request.scope)):
            return None, ""
        if (seconds := self._rate.refused()) is not None:
            raise NotPermitted(f"cannot sign in: too many do; again in {max(1, round(seconds))} s")
        person = proxy.person_of(name, request.headers.get(proxy.groups, "") if proxy.groups else "")
        lasting = proxy.hours * 3600 if self._settings.is_secure else SHORT_SECONDS
        return await self._let_in(request, person, "proxy", lasting)

    def _back_to(self, issuer: str) -> str:
        return self._settings.url + BACK.replace("{issuer}", issuer)

    def _set(self, answer: Response, name: str, value: str, seconds: float, site: Any) -> None:
        answer.set_cookie(
            name, value, max_age=max(0, int(seconds)), path="/", httponly=True, samesite=site,
            secure=self._settings.is_secure,
        )  # fmt: skip


def _peer(scope: Scope) -> str:
    """Return the address that a request comes from; empty for a connection that no longer has an address."""
    client: Sequence[Any] | None = scope.get("client")
    server: Sequence[Any] | None = scope.get("server")
    if server and server[1] is None:  # the path of a socket has no port
        return UNIX
    return str(client[0]) if client and client[0] else ""


def _noted(request: Request, key: AccessKey) -> None:
    """Have the audit trail say who has signed in or out."""
    request.scope[KEY], request.scope[ADMITTED] = key, True


async def _object(request: Request) -> dict[str, Any] | None:
    """Return the object in a body; None for a body that a form of a foreign site can send."""
    if request.headers.get("content-type") != "application/json":
        return None
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _line(text: str, status: int) -> Response:
    return PlainTextResponse(plain(text, 400) + "\n", status, headers=dict(HEADERS))


def _too_many(seconds: float) -> Response:
    body = answer_forms.body("too_many_requests", "cannot sign in: too many people do", "try again soon")
    return JSONResponse(body, 429, headers={**HEADERS, "Retry-After": str(max(1, round(seconds)))})


def _refused(error: HoldfastError | None) -> Response:
    if error is None:
        body = answer_forms.body("unauthorized", "cannot answer: you are not signed in", "sign in")
        return JSONResponse(body, 401, headers=dict(HEADERS))
    return JSONResponse(answer_forms.body_of(error), answer_forms.status_of(error), headers=dict(HEADERS))
