"""Admission: requests with the token, sent to this server by its name, and not by a foreign page.

A page in a browser can send requests to any port of this machine. It does not know tokens; Host and Origin
are checked nevertheless (DNS rebinding, and WebSockets, which no same-origin policy covers).
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from holdfast.runtime.access.access_keys import AccessKey, AccessKeys
from holdfast.runtime.http_doors.door_sockets import ADMITTED

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Refusal = tuple[int, str, str]
"""Status, code and message."""

KEY = "holdfast.key"
"""Of the scope of a request: the access key that let it in; absent for the server's own token."""
SANDBOX = "holdfast.sandbox"
"""Of the scope of a request: the id of the session that it is for, and that its credential opens."""
ACTOR_HEADER = "Holdfast-Actor"
TEAM_HEADER = "Holdfast-Team"
"""Names the team that a request with the server's own token is for."""
SUBPROTOCOL_TOKEN = b"bearer."
"""Pages cannot set headers of a WebSocket: the token may be one of the offered subprotocols, behind this."""
TRAIL = "holdfast.trail"
"""Of the scope of a request: the audit trail of the home that it turned out to be for."""
_SCHEME = b"Bearer "
_OF_PAGE = re.compile(rb"h[pt]_[0-9a-f]{12}_")
NO_TOKEN: Refusal = (401, "unauthorized", "send the token as `Authorization: Bearer TOKEN`")


class Admission:
    """The rules of one door.

    Args:
        token: who sends it is admitted.
        hosts: names, without port, by which clients may address the server beside loopback's; None if any
            will do, as over a unix socket, which no page reaches.
        origins: those of pages that may use it, as browsers send them.
        keys: the access keys that it takes besides the token; None for none.
    """

    def __init__(
        self,
        token: str,
        hosts: Iterable[str] | None = (),
        origins: Iterable[str] = (),
        keys: AccessKeys | None = None,
    ) -> None:
        self._expected = token.encode()
        self.keys = keys
        self._hosts = None if hosts is None else {name.lower() for name in hosts}
        self._origins = {each.lower() for each in origins}

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return the reason why a request is refused; None if it is admitted."""
        if not self.has_token(scope):
            return NO_TOKEN
        return self.elsewhere(scope)

    def is_token(self, given: bytes) -> bool:
        """Return whether this is the token, in the same time for all that have its length."""
        return hmac.compare_digest(given, self._expected)

    def key(self, given: bytes) -> AccessKey | None:
        """Return the valid access key of this text; None if there is none."""
        return None if self.keys is None else self.keys.opened_by(given)

    def key_of(self, id_: str) -> AccessKey | None:
        """Return the valid access key with this id, for things derived from it; None if there is none."""
        return None if self.keys is None else self.keys.valid(id_)

    def is_ours(self, given: bytes) -> bool:
        """Return whether this is a credential of the server, which no session should get."""
        return self.is_token(given) or self.key(given) is not None or bool(_OF_PAGE.match(given))

    def is_here(self, host: bytes) -> bool:
        """Return whether clients can address the server by this name, with or without a port."""
        return self._hosts is None or self._is_local(host)

    def elsewhere(self, scope: Scope) -> Refusal | None:
        """Return the reason to refuse a request for a different host, or from a foreign page."""
        headers = _by_name(scope)
        hosts = headers.get(b"host", [])
        if self._hosts is not None and (len(hosts) != 1 or not self._is_local(hosts[0])):
            return 421, "misdirected", "the server does not have that name; `--host-name` adds one"
        # A page of this very place would be ours: the name was just checked, and nothing else has the port.
        own = set() if self._hosts is None else {b"http://" + host.lower() for host in hosts}
        for origin in headers.get(b"origin", []):
            if origin.lower() not in own and origin.decode("latin-1").lower() not in self._origins:
                return (
                    403,
                    "forbidden_origin",
                    "pages of this origin are not allowed to use the server; see `--origin`",
                )
        return None

    def has_token(self, scope: Scope) -> bool:
        """Return whether a request has the token as `Authorization: Bearer`, wherever it is sent to."""
        return self.is_one_token(bearer_tokens(scope))

    def is_one_token(self, given: Sequence[bytes]) -> bool:
        """Return whether exactly one token is given, and it is this: an intermediary can read the other of
        two."""
        return len(given) == 1 and self.is_token(given[0])

    def _is_local(self, host: bytes) -> bool:
        name = _without_port(host.decode("latin-1").lower())
        if name == "localhost" or name.endswith(".localhost") or name in (self._hosts or ()):
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def bearer_tokens(scope: Scope) -> list[bytes]:
    """Return the tokens that a request has in its `Authorization`, or among the offered subprotocols."""
    headers = _by_name(scope)
    given = headers.get(b"authorization", [])
    if scope["type"] == "websocket" and not given:
        offered = b",".join(headers.get(b"sec-websocket-protocol", [])).split(b",")
        tokens = [each.strip() for each in offered if each.strip().startswith(SUBPROTOCOL_TOKEN)]
        return [each.removeprefix(SUBPROTOCOL_TOKEN) for each in tokens]
    return [each.removeprefix(_SCHEME) if each.startswith(_SCHEME) else b"" for each in given]


def _by_name(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope.get("headers", ()):
        found.setdefault(name.lower(), []).append(value)
    return found


def guarded(app: App, admission: Admission) -> App:
    """Return an application that passes on the requests that are admitted, and the life of the process."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif (refusal := admission.refusal(scope)) is None:
            scope[ADMITTED] = True
            await app(scope, receive, send)
        else:
            await refuse(scope, send, refusal)

    return guard


async def refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Answer a request that is not admitted, in the form of our own API."""
    status, code, message = refusal
    body = {"error": {"code": code, "message": f"cannot answer: {message}", "hint": ""}}
    await answer(scope, send, status, body, [(b"www-authenticate", b"Bearer")] if status == 401 else [])


async def answer(
    scope: Scope, send: Send, status: int, told: Mapping[str, Any], more: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer a request that is not admitted, and close its connection."""
    body = json.dumps(told).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *more,
    ]
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    await send({"type": f"{prefix}.response.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
