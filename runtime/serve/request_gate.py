"""The gate of a server: each request passes it once, before any door.

It decides in one order for all doors: the host and origin, the credential, the rate, the size and time of the
body; and it gives the request its id, its line in the log and its figures (`server_metrics`). A door says
which requests are its own, which credential opens what of it, and how its wire tells a refusal.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from starlette.responses import JSONResponse, Response

from holdfast.base.request_id import begin_request
from holdfast.base.text import plain
from holdfast.errors import StoreError
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.access.audit_trail import SERVER_KEY, AuditedRequest, AuditTrail
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Admission, App, Receive, Refusal, Scope, Send
from holdfast.runtime.http_doors.door_sockets import ADMITTED
from holdfast.runtime.http_doors.request_limits import Paths, RequestRate, limited
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.access_key_requests import opened_with
from holdfast.runtime.serve.server_metrics import ServerMetrics

if TYPE_CHECKING:
    from holdfast.runtime.serve.session_places import Away

REQUEST_ID = b"x-request-id"
_ACTOR = admission.ACTOR_HEADER.lower().encode()
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SWITCHED = 101
_ABSENT = (404, 502)
"""Statuses of refusals that a door gives because it does not know the session."""
logger = logging.getLogger("holdfast.serve")


class FindAway(Protocol):
    """Returns the answer to a request for a session that another node of a cluster has."""

    def __call__(self, scope: Scope, *, admitted: bool) -> Awaitable[Away | None]:
        """Look for the session; `admitted` if the credential of the request is valid."""
        ...


class ServedDoor(ABC):
    """The door of one wire."""

    streamed: Paths = frozenset()
    """Methods and ends of paths whose bodies can have any size."""
    typed: Paths = frozenset()
    """Operations whose bodies can also take any time."""
    single: frozenset[bytes]
    """Headers of credentials: a request that repeats one of them is refused."""
    counted = True
    """Whether its requests count for the rate of the server."""
    acts_as = "agent:api"
    """The actor of a request that names none."""
    audits_sockets = False
    """Whether a WebSocket is a row of the audit trail; of our own API each of its calls is one."""
    knows_without_session = False
    """Whether it checks credentials before it looks for the session."""
    tells_strangers_the_name = True
    """Whether a request to a wrong name is refused as that before its credential is looked at."""

    def __init__(self, rules: Admission) -> None:
        self.rules = rules

    @abstractmethod
    def takes(self, scope: Scope) -> Scope | None:
        """Return a request as it looks behind this door; None if it is for a different door."""

    @abstractmethod
    async def opens(self, scope: Scope) -> App | Refusal:
        """Return the access that a credential gives, or the refusal.

        One that is let in without a credential has `ADMITTED` as false: it stays a stranger.
        """

    @abstractmethod
    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not admitted, in the form of the wire."""

    def audited(self, scope: Scope) -> bool:
        """Return whether a request gets a row in the audit trail, once it was answered."""
        return self.counted and bool(scope.get(ADMITTED, True))

    def actor(self, scope: Scope) -> str:
        """Return the actor of a request, for the audit trail."""
        key: AccessKey | None = scope.get(admission.KEY)
        told = next((value for name, value in scope["headers"] if name == _ACTOR), b"").decode("latin-1")
        return key.acts_as(told) if key else plain(told, 80) or self.acts_as

    def elsewhere(self, scope: Scope) -> Refusal | None:
        """Return the refusal of a request to a different host, or from a foreign page."""
        return self.rules.elsewhere(scope)

    def opened_by(self, given: Sequence[bytes], scope: Scope, app: App) -> App | None:
        """Return an application as the token, or access key, of a request opens it; None if neither does.

        Several tokens do not count: a program on the way could have read the other.
        """
        if len(given) != 1:
            return None
        if self.rules.is_token(given[0]):
            return app
        key = self.rules.key(given[0])
        return None if key is None else opened_with(key, self.rules, scope, app)


class TokenDoor(ServedDoor):
    """A door with one application, which the server's own token and access keys open, wherever they are."""

    missing: Refusal

    def __init__(self, rules: Admission, app: App) -> None:
        super().__init__(rules)
        self._app = app

    @abstractmethod
    def given(self, scope: Scope) -> Sequence[bytes]:
        """Return the tokens of a request; one that has several, or none, is refused."""

    async def opens(self, scope: Scope) -> App | Refusal:
        """Return the application, or the refusal."""
        return self.opened_by(self.given(scope), scope, self._app) or self.missing


class BearerDoor(TokenDoor):
    """A door whose clients send `Authorization: Bearer`, and read the refusals of our own API."""

    single = frozenset({b"authorization"})
    tells_strangers_the_name = False
    missing = admission.NO_TOKEN

    def given(self, scope: Scope) -> Sequence[bytes]:
        """Return the tokens of a request."""
        return admission.bearer_tokens(scope)

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not let in."""
        await admission.refuse(scope, send, refusal)


class RequestGate:
    """The gate before doors, the first of which to accept a request handles it.

    Args:
        doors: the last one takes every request.
        rate: of the requests of all.
        metrics: the figures of all.
        trail: gets a row for each request that was let in; None for no trail.
        read: returns a request with headers that say what the name it is sent to means.
        away: returns the answer to a request for a session that another node of a cluster has.
    """

    def __init__(
        self,
        doors: Sequence[ServedDoor],
        rate: RequestRate,
        metrics: ServerMetrics,
        trail: AuditTrail | None = None,
        read: Callable[[Scope], Scope] = lambda scope: scope,
        away: FindAway | None = None,
    ) -> None:
        self._doors, self._rate, self._metrics, self._read = tuple(doors), rate, metrics, read
        self._trail, self._away = trail, away

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, by its door if it is admitted."""
        meant = self._read(scope)
        taken = ((door, door.takes(meant)) for door in self._doors)
        door, own = next((door, own) for door, own in taken if own is not None)
        try:
            found = await _opened(door, own, scope)
        except StoreError as error:
            logger.error("cannot check a key: %s", plain(str(error), 300))
            found = 503, error.code, "keys cannot be checked now: ask again in a moment"
        if (away := await self._elsewhere(door, meant, found)) is not None:
            await door.refuse(own, _with(send, away.headers), away.refusal)
            return
        if isinstance(found, tuple):
            await door.refuse(own, send, found)
            return
        scope[ADMITTED] = own.setdefault(ADMITTED, True)  # its connection looks there
        app = limited(found, door.streamed, door.typed)
        if scope["type"] != "http":
            await app(own, receive, self._noted(door, own, send))
            return
        await self._answered(door, app, own, receive, send)

    async def _elsewhere(self, door: ServedDoor, scope: Scope, found: App | Refusal) -> Away | None:
        """Return the answer to a request for a session that another node has, if that can be revealed."""
        if self._away is None or (isinstance(found, tuple) and found[0] not in _ABSENT):
            return None
        return await self._away(scope, admitted=door.knows_without_session or not isinstance(found, tuple))

    def _noted(self, door: ServedDoor, scope: Scope, send: Send) -> Send:
        """Return where a WebSocket's messages go; that it was accepted is a row of the audit trail."""
        if self._trail is None or not (door.audits_sockets and door.audited(scope)):
            return send

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "websocket.accept":
                self._audit(door, scope, secrets.token_hex(8), _SWITCHED, 0.0)
            await send(message)

        return noted

    async def _answered(self, door: ServedDoor, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request be answered, unless there are too many."""
        given = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"")
        id_ = given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
        begin_request(id_)
        began, status, began_answer = time.monotonic(), 500, False

        async def named(message: MutableMapping[str, Any]) -> None:
            nonlocal status, began_answer
            if message["type"] == "http.response.start":
                status, began_answer = message["status"], True
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, id_.encode())]
            await send(message)

        try:
            if door.counted and (seconds := self._rate.refused()) is not None:
                await _too_many(seconds)(scope, receive, named)
            else:
                await app(scope, receive, named)
        except Exception as error:
            if not began_answer:
                raise
            logger.error(json.dumps({"request": id_, "cut_short": plain(str(error), 400)}))
        finally:
            self._note(door, scope, id_, status, time.monotonic() - began)

    def _note(self, door: ServedDoor, scope: Scope, id_: str, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "none")
        self._metrics.answered(scope["method"], path, status, seconds)
        told = {
            "request": id_,
            "method": scope["method"],
            "path": plain(scope["path"], 200),
            "status": status,
            "seconds": round(seconds, 4),
        }
        logger.info(json.dumps(told))
        if door.audited(scope):
            self._audit(door, scope, id_, status, seconds)

    def _audit(self, door: ServedDoor, scope: Scope, id_: str, status: int, seconds: float) -> None:
        trail: AuditTrail | None = scope.get(admission.TRAIL, self._trail)
        if trail is None:
            return
        named = scope.get("path_params", {})
        session = named.get("session") or named.get("sandbox") or scope.get(admission.SANDBOX) or ""
        trail.note(
            AuditedRequest(
                time.time() - seconds,
                door.actor(scope),
                key.id if (key := scope.get(admission.KEY)) else SERVER_KEY,
                scope.get("method", "WS"),
                getattr(scope.get("route"), "path", None) or plain(scope["path"], 200),
                plain(str(session), 80),
                status,
                id_,
                round(seconds, 4),
            )
        )


def _with(send: Send, headers: Mapping[bytes, bytes]) -> Send:
    """Return where an answer goes, with these headers in addition."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"].endswith("response.start"):
            message["headers"] = [*message.get("headers", ()), *headers.items()]
        await send(message)

    return sent


async def _opened(door: ServedDoor, own: Scope, sent: Scope) -> App | Refusal:
    """Return the application, or the refusal. `sent` has the original headers, `own` the door's view."""
    twice = _repeated(door, sent)
    if door.tells_strangers_the_name:
        return door.elsewhere(own) or twice or await door.opens(own)
    found = twice or await door.opens(own)
    return found if isinstance(found, tuple) else door.elsewhere(own) or found


def _repeated(door: ServedDoor, scope: Scope) -> Refusal | None:
    """Refuse duplicate headers where one counts: an intermediary can have read the other one."""
    names = [name.lower() for name, _ in scope.get("headers", ())]
    several = next((name for name in sorted(door.single) if names.count(name) > 1), None)
    if several is None:
        return None
    return 401, "unauthorized", f"the request has the header {several.decode()} several times: send it once"


def _too_many(seconds: float) -> Response:
    body = answer_forms.body(
        "too_many_requests", "cannot answer: too many requests", "send fewer in a second"
    )
    return JSONResponse(body, 429, headers={"Retry-After": str(max(1, round(seconds)))})
