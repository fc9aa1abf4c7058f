"""Which requests are of this wire, and who of them is let in.

It shares the port of the server: its requests are told by their paths and headers. Those about sandboxes need
the server's own token (`X-API-KEY`); those for one sandbox its tokens, or a signature in a file's address.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import parse_qs

from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.sandbox_caller import SANDBOX
from holdfast.runtime.e2b.sandbox_tokens import FileSignature, SandboxTokens
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Refusal, Scope, Send

SANDBOX_ID, SANDBOX_PORT = b"e2b-sandbox-id", b"e2b-sandbox-port"
KEY, ACCESS, TRAFFIC = b"x-api-key", b"x-access-token", b"e2b-traffic-access-token"
_CONTROL = re.compile(r"/(v[23]/)?(sandboxes|snapshots|templates|teams|volumes|secrets|nodes)(/|$)")
_DATA = re.compile(r"/(process\.Process/|filesystem\.Filesystem/|files(/|$)|execute$|contexts(/|$)|envs$)")
_ID = re.compile(r"[a-z0-9]{1,64}")
Ids = Callable[[], Awaitable[Iterable[str]]]
"""Returns the ids of all sessions."""


class SandboxDoor:
    """The door of this wire; `other` answers what is not of it."""

    def __init__(self, app: App, other: App, admission: Admission, tokens: SandboxTokens, ids: Ids) -> None:
        self._app, self._other = app, other
        self._admission, self._tokens, self._ids = admission, tokens, ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the others do it."""
        if scope["type"] != "http" or not is_of_wire(scope):
            await self._other(scope, receive, send)
            return
        refusal = self._admission.elsewhere(scope) or await self._refusal(scope)
        if refusal is None:
            scope[ADMITTED] = True
            await self._app(scope, receive, send)
        else:
            await _refuse(refusal, scope, send)

    async def _refusal(self, scope: Scope) -> Refusal | None:
        headers = dict(scope["headers"])
        if _CONTROL.match(scope["path"]) and SANDBOX_ID not in headers:
            if self._admission.is_token(headers.get(KEY, b"")):
                return None
            return 401, "unauthorized", "send the server's token as API key (E2B_API_KEY)"
        if SANDBOX_ID in headers:
            sandbox = headers[SANDBOX_ID].decode("latin-1")
            access, traffic = (headers.get(name, b"").decode("latin-1") for name in (ACCESS, TRAFFIC))
            if _ID.fullmatch(sandbox) and self._tokens.admits(sandbox, access, traffic):
                scope[SANDBOX] = sandbox
                return None
        if (asked := signature(scope)) is not None and scope["path"] == "/files":
            if asked.expired(time.time()):
                return 401, "unauthorized", "the time of this signed address is over"
            for sandbox in await self._ids():
                if self._tokens.signed(sandbox, asked):
                    scope[SANDBOX] = sandbox
                    return None
        return 401, "unauthorized", "the token is not one of this sandbox: connect to it for its tokens"


def is_of_wire(scope: Scope) -> bool:
    """Return whether a request is one of this wire."""
    if any(name in (SANDBOX_ID, KEY) for name, _ in scope["headers"]):
        return True
    return bool(_DATA.match(scope["path"]) or _CONTROL.match(scope["path"]))


def signature(scope: Scope) -> FileSignature | None:
    """Return what a signed address says; None if it is none."""
    said = {name: values[0] for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
    if "signature" not in said:
        return None
    given = said.get("signature_expiration")
    if given is not None and not re.fullmatch(r"\d{1,12}", given):
        return None
    operation = "write" if scope["method"] == "POST" else "read"
    return FileSignature(
        path=said.get("path", ""),
        operation=operation,
        user=said.get("username", ""),
        signature=said["signature"],
        expiration=None if given is None else int(given),
    )


async def _refuse(refusal: Refusal, scope: Scope, send: Send) -> None:
    status, _, message = refusal
    body = json.dumps(e2b_errors.body(scope["path"], status, f"cannot answer: {message}")).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
