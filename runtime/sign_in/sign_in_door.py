"""The door by which people sign in: to the web page by a browser, to the command line by a device code.

A person with an identity token of an issuer that the server trusts gets an access key with the rights of
their role. Browsers over TLS have it in a cookie that no script and no other site can use, and
exchange it for the key of a page, which stays in memory. A cookie of `localhost` is sent to all ports of
that name, so pages there get the latter alone, by a code in the fragment of the address. A person of several
teams says which one they mean before they get a key.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, NotPermitted
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
from holdfast.runtime.sign_in.pending_sign_ins import Begun, OneTimeCodes
from holdfast.runtime.sign_in.people_homes import HeldKey, PeopleHome, PeopleHomes

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

    def __init__(self, rules: Admission, settings: SignInSettings, homes: PeopleHomes) -> None:
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
        self._app = _Desk(settings, homes).application()

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


@dataclass(frozen=True, slots=True)
class ArrivedPerson:
    """Someone who has come back from an issuer; they have a key once it is clear for which team."""

    binding: str
    person: Person
    issuer: str
    seconds: float
    held: HeldKey | None


class _Desk:
    """The requests of one server."""

    def __init__(self, settings: SignInSettings, homes: PeopleHomes) -> None:
        self._settings, self._homes = settings, homes
        self._issuers = {each.name: IssuerClient(each, each.secret()) for each in settings.issuer}
        self._begun: OneTimeCodes[Begun] = OneTimeCodes(BEGUN_SECONDS)
        self._entries: OneTimeCodes[ArrivedPerson] = OneTimeCodes(ENTRY_SECONDS)
        self._challenges: OneTimeCodes[None] = OneTimeCodes(BEGUN_SECONDS)
        self._used: OneTimeCodes[None] = OneTimeCodes(USED_SECONDS)
        self._choosing: OneTimeCodes[str] = OneTimeCodes(BEGUN_SECONDS)
        """Used tokens that count once more: for the challenge of a login that has to name a team."""
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
        found = self._begun.take(asked.get("state"), time.time())
        begun = found and found[1]
        if (
            not begun
            or not self._is_bound(request, begun.binding)
            or begun.issuer != request.path_params["issuer"]
        ):
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
            person, lasting = client.issuer.person_of(claims), client.issuer.hours * 3600
            homes = self._homes.of(person, None)
            held = None
            if len(homes) == 1:
                held = await self._let_in(request, homes[0], person, client.issuer.url, lasting)
        except HoldfastError as error:
            return _line(str(error), answer_forms.status_of(error))
        if held is not None and self._settings.is_secure:
            answer = RedirectResponse("/", 303, headers=dict(HEADERS))
            self._keep(answer, held)
            return answer
        arrived = ArrivedPerson(begun.binding, person, client.issuer.url, lasting, held)
        code = self._entries.add(arrived, time.time())
        return RedirectResponse(f"/#entry={code}", 303, headers=dict(HEADERS))

    async def _short(self, request: Request) -> Response:
        """Give a page its key, for its cookie, the code of its address, or the header of a proxy.

        A person of several teams gets their names first, and asks again with one of them.
        """
        told = await _object(request)
        if told is None:
            return _refused(NotPermitted("cannot sign in: that is not a request of the page"))
        wanted = team if isinstance(team := told.get("team"), str) else None
        try:
            if "entry" in told:
                found = await self._of_entry(request, told["entry"], wanted)
            else:
                found = self._of_cookie(request) or await self._of_proxy(request, wanted)
        except HoldfastError as error:
            return _refused(error)
        if found is None:
            return _refused(None)
        if isinstance(found, list):
            return _choice(found)
        lasts = "entry" in told and not self._settings.is_secure
        seconds = max(1.0, min(float("inf") if lasts else SHORT_SECONDS, found.key.expires_at - time.time()))
        _noted(request, found)
        body = {
            "key": found.short(seconds), "actor": found.key.actor, "team": found.home.team or None,
            "seconds": int(seconds),
        }  # fmt: skip
        answer = JSONResponse(body, 201, headers=dict(HEADERS))
        if found.text and self._settings.is_secure:
            self._keep(answer, found)
        return answer

    async def _end(self, request: Request) -> Response:
        """Sign out: revoke the key that is shown, wherever it is used."""
        if await _object(request) is None:
            return _refused(NotPermitted("cannot sign out: that is not a request of the page"))
        given = admission.bearer_tokens(request.scope)
        try:
            held = self._homes.held(given[0]) if given else self._of_cookie(request)
            if held is None:
                return _refused(None)
            await asyncio.to_thread(held.home.keys.revoke, held.key.id)
        except HoldfastError as error:
            return _refused(error)
        _noted(request, held)
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
            pending = self._choosing.take(digest, now)
            is_again = pending is not None and pending[1] == challenge
            if given is None or (self._used.has(digest, now) and not is_again):
                raise NotPermitted("cannot sign in: it took too long, or was done before", hint="begin again")
            nonce = nonce_for(request.headers.get("host", ""), str(challenge))
            lax = device.nonce == "optional"
            expected = Expected(client.issuer.url, device.client, nonce, lax, given[0])
            claims = await client.verified(token, expected)
            if self._used.has(digest, now) and not is_again:  # by a request at the same time
                raise NotPermitted("cannot sign in: the token was used before", hint="begin again")
            self._used.add(None, now, digest)
            person = client.issuer.person_of(claims)
            wanted = team if isinstance(team := told.get("team"), str) else None
            homes = self._homes.of(person, wanted)
            if len(homes) > 1:
                self._challenges.add(None, given[0], str(challenge))
                self._choosing.add(str(challenge), now, digest)
                return _choice(homes)
            held = await self._let_in(request, homes[0], person, client.issuer.url, device.days * 86400)
        except HoldfastError as error:
            return _refused(error)
        body = {
            "key": held.text, "id": held.key.id, "actor": held.key.actor,
            "role": person.roles[held.home.team], "team": held.home.team or None,
            "expires_at": held.key.expires_at,
        }  # fmt: skip
        return JSONResponse(body, 201, headers=dict(HEADERS))

    async def _let_in(
        self, request: Request, home: PeopleHome, person: Person, issuer: str, seconds: float
    ) -> HeldKey:
        held = await asyncio.to_thread(home.let_in, person, issuer, seconds)
        _noted(request, held)
        return held

    async def _of_entry(
        self, request: Request, code: object, wanted: str | None
    ) -> HeldKey | list[PeopleHome] | None:
        """Return the key of a person whom an issuer has sent back with this browser, or their choice."""
        found = self._entries.take(code, time.time())
        if found is None or not self._is_bound(request, found[1].binding):
            return None
        since, arrived = found
        if arrived.held is not None:
            return arrived.held if arrived.held.home.keys.is_valid(arrived.held.key) else None
        homes = self._homes.of(arrived.person, wanted)
        if len(homes) > 1:
            self._entries.add(arrived, since, str(code))
            return homes
        return await self._let_in(request, homes[0], arrived.person, arrived.issuer, arrived.seconds)

    def _of_cookie(self, request: Request) -> HeldKey | None:
        """Return the key in the cookie; browsers that do not come over TLS have none."""
        text = request.cookies.get(COOKIE, "") if self._settings.is_secure else ""
        held = self._homes.held(text.encode()) if text.startswith("hf_") else None
        return held if held is not None and held.key.kind == "person" else None

    async def _of_proxy(self, request: Request, wanted: str | None) -> HeldKey | list[PeopleHome] | None:
        """Return a key of the person whom the proxy names, or their choice."""
        proxy = self._settings.proxy
        name = request.headers.get(proxy.header, "") if proxy else ""
        if proxy is None or not name or not proxy.trusts(_peer(request.scope)):
            return None
        if (seconds := self._rate.refused()) is not None:
            raise NotPermitted(f"cannot sign in: too many do; again in {max(1, round(seconds))} s")
        person = proxy.person_of(name, request.headers.get(proxy.groups, "") if proxy.groups else "")
        homes = self._homes.of(person, wanted)
        lasting = proxy.hours * 3600 if self._settings.is_secure else SHORT_SECONDS
        return homes if len(homes) > 1 else await self._let_in(request, homes[0], person, "proxy", lasting)

    def _is_bound(self, request: Request, binding: str) -> bool:
        """Return whether a request comes from the browser that began a sign-in."""
        given = request.cookies.get(BEGUN_COOKIE if self._settings.is_secure else PLAIN_BEGUN_COOKIE, "")
        return hmac.compare_digest(given.encode(), binding.encode())

    def _back_to(self, issuer: str) -> str:
        return self._settings.url + BACK.replace("{issuer}", issuer)

    def _keep(self, answer: Response, held: HeldKey) -> None:
        """Have a browser keep the key of a person."""
        self._set(answer, COOKIE, held.text, held.key.expires_at - time.time(), "strict")

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


def _noted(request: Request, held: HeldKey) -> None:
    """Note the sign-in or sign-out of a person in the audit trail of a home."""
    request.scope[KEY], request.scope[ADMITTED] = held.key, True
    request.scope[admission.TRAIL] = held.home.trail


def _choice(homes: Sequence[PeopleHome]) -> Response:
    """Tell a person of several teams their names; the server's own home has an empty one."""
    return JSONResponse({"teams": [each.team for each in homes]}, headers=dict(HEADERS))


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
