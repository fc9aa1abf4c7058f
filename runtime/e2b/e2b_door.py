"""Which requests are of this wire, and who of them is let in.

It shares the port of the server: its requests are known by their paths and headers. Those of the control
plane need the server's own token (`X-API-KEY`); those for one sandbox its tokens, or a signature in a file's
address.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from starlette.datastructures import QueryParams

from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.ports.port_heads import ACCESS, KEY, TRAFFIC
from holdfast.runtime.e2b.ports.port_names import SANDBOX_ID
from holdfast.runtime.e2b.sandbox_caller import SANDBOX
from holdfast.runtime.e2b.sandbox_tokens import FileSignature, SandboxTokens
from holdfast.runtime.http_doors import door_guard
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Refusal, Scope, Send

KEY_PREFIX = b"e2b_"
"""Some clients accept only keys of this prefix and hexadecimal digits."""
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
            status, _, why = refusal
            told = e2b_errors.body(scope["path"], status, f"cannot answer: {why}")
            await door_guard.answer(scope, send, status, told)

    async def _refusal(self, scope: Scope) -> Refusal | None:
        headers = dict(scope["headers"])
        # Some clients send the id of a sandbox to the control plane as well.
        if _CONTROL.match(scope["path"]) and (KEY in headers or SANDBOX_ID not in headers):
            if self._admission.is_token(headers.get(KEY, b"").removeprefix(KEY_PREFIX)):
                return None
            return 401, "unauthorized", "send the server's token as API key (E2B_API_KEY=e2b_TOKEN)"
        asked = signature(scope) if scope["path"] == "/files" else None
        if asked is not None and asked.expired(time.time()):
            return 401, "unauthorized", "the time of this signed address is over"
        found = self._named(headers) or await self._found(headers, asked)
        if found is None:
            return 401, "unauthorized", "the token is not one of this sandbox: connect to it for its tokens"
        scope[SANDBOX] = found
        return None

    def _named(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the sandbox that a request names, if it has a token of it."""
        sandbox = headers.get(SANDBOX_ID, b"").decode("latin-1")
        access, traffic = (headers.get(name, b"").decode("latin-1") for name in (ACCESS, TRAFFIC))
        right = _ID.fullmatch(sandbox) and self._tokens.admits(sandbox, access, traffic)
        return sandbox if right else None

    async def _found(self, headers: Mapping[bytes, bytes], asked: FileSignature | None) -> str | None:
        """Return the sandbox whose token a request has, or is signed with, if it does not name one."""
        # Some clients send the token without the id of the sandbox they have connected to.
        access = "" if SANDBOX_ID in headers else headers.get(ACCESS, b"").decode("latin-1")
        for sandbox in await self._ids() if access or asked is not None else ():
            if access and self._tokens.admits(sandbox, access, ""):
                return sandbox
            if asked is not None and self._tokens.signed(sandbox, asked):
                return sandbox
        return None


def is_of_wire(scope: Scope) -> bool:
    """Return whether a request is one of this wire."""
    if any(name in (SANDBOX_ID, KEY, ACCESS) for name, _ in scope["headers"]):
        return True
    return bool(_DATA.match(scope["path"]) or _CONTROL.match(scope["path"]))


def signature(scope: Scope) -> FileSignature | None:
    """Return what a signed address says; None if it is not one."""
    items = QueryParams(scope["query_string"]).multi_items()
    said = dict(items)
    if "signature" not in said or len(said) < len(items):  # twice: which is signed, and which one counts?
        return None
    given = said.get("signature_expiration")
    if given is not None and not re.fullmatch(r"\d{1,12}", given, re.ASCII):
        return None
    operation = "write" if scope["method"] == "POST" else "read"
    return FileSignature(
        path=said.get("path", ""),
        operation=operation,
        user=said.get("username", ""),
        signature=said["signature"],
        expiration=None if given is None else int(given),
    )
