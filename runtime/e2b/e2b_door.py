"""Which requests are of this wire, and which of its applications a credential opens.

It shares the port of the server: its requests are known by their paths and headers. There is one application
for each kind of credential, with the paths that this kind is for and no others: what the door admits with a
sandbox's token cannot reach the control plane, whatever path it has.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from holdfast.errors import HoldfastError
from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.ports.port_heads import ACCESS, KEY, TRAFFIC
from holdfast.runtime.e2b.ports.port_names import SANDBOX_ID
from holdfast.runtime.e2b.sandbox_caller import SANDBOX
from holdfast.runtime.e2b.sandbox_ids import SandboxIds
from holdfast.runtime.e2b.sandbox_tokens import FileSignature, SandboxTokens
from holdfast.runtime.http_doors import door_guard
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Refusal, Scope, Send

KEY_PREFIX = b"e2b_"
"""Some clients accept only keys of this prefix and hexadecimal digits."""
_CONTROL = re.compile(r"/(v[23]/)?(sandboxes|snapshots|templates|teams|volumes|secrets|nodes)(/|$)")
_DATA = re.compile(r"/(process\.Process/|filesystem\.Filesystem/|files(/|$)|execute$|contexts(/|$)|envs$)")
_CONTEXTS = re.compile(r"/contexts(/|$)")
_FILES = "/files"
EXPIRED = "signature is already expired"
"""Clients compare this sentence of E2B's."""
_ID = re.compile(r"[a-z0-9]{1,64}")
_WRONG: Refusal = (
    401,
    "unauthorized",
    "the token is not one of this sandbox: connect to it for its tokens",
)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The applications of this wire, by what opens them.

    `control` has the paths for sandboxes as wholes, and needs the server's own token. `sandbox` has
    processes, files and code of one, for its access token; `contexts` and `files` have the few of those that
    its traffic token, and a signed address, are for.
    """

    control: App
    sandbox: App
    contexts: App
    files: App


class SandboxDoor:
    """The door of this wire; `other` answers what is not of it."""

    def __init__(
        self, scopes: Scopes, other: App, admission: Admission, tokens: SandboxTokens, ids: SandboxIds
    ) -> None:
        self._scopes, self._other = scopes, other
        self._admission, self._tokens, self._ids = admission, tokens, ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the others do it."""
        if scope["type"] != "http" or not is_of_wire(scope):
            await self._other(scope, receive, send)
            return
        found = self._admission.elsewhere(scope) or await self._opened(scope)
        if not isinstance(found, tuple):
            scope[ADMITTED] = True
            await found(scope, receive, send)
        else:
            status, _, why = found
            message = why if why.startswith(("cannot", EXPIRED)) else f"cannot answer: {why}"
            told = e2b_errors.body(scope["path"], status, message)
            await door_guard.answer(scope, send, status, told)

    async def _opened(self, scope: Scope) -> App | Refusal:
        """Return the application that a request may reach, or why it may reach none."""
        headers = dict(scope["headers"])
        if _CONTROL.match(scope["path"]):
            # Some clients send the id of a sandbox to the control plane as well.
            if self._admission.is_token(headers.get(KEY, b"").removeprefix(KEY_PREFIX)):
                return self._scopes.control
            return 401, "unauthorized", "send the server's token as API key (E2B_API_KEY=e2b_TOKEN)"
        asked = signature(scope) if scope["path"] == _FILES else None
        if asked is not None and asked.expired(time.time()):
            return 401, "unauthorized", EXPIRED
        try:
            if SANDBOX_ID in headers:
                return await self._named(scope, headers, asked)
            return await self._found(scope, headers, asked)
        except HoldfastError as error:  # the sessions cannot be looked up
            return e2b_errors.status_of(error), error.code, e2b_errors.sentence(error)

    async def _named(
        self, scope: Scope, headers: Mapping[bytes, bytes], asked: FileSignature | None
    ) -> App | Refusal:
        """Return what a credential opens of the sandbox that the request names."""
        sandbox, access, traffic = (
            headers.get(name, b"").decode("latin-1") for name in (SANDBOX_ID, ACCESS, TRAFFIC)
        )
        if not _ID.fullmatch(sandbox):
            return _WRONG
        if self._tokens.is_access(sandbox, access):
            found = self._scopes.sandbox
        elif asked is not None and self._tokens.signed(sandbox, asked):
            found = self._scopes.files
        elif not self._tokens.is_traffic(sandbox, traffic):
            return _WRONG
        elif _CONTEXTS.match(scope["path"]):
            found = self._scopes.contexts
        else:
            return 401, "unauthorized", "the traffic access token opens ports: send the access token of envd"
        if not await self._ids.has(sandbox):
            return 502, "sandbox_unavailable", f"cannot reach the sandbox: {sandbox} was not found"
        scope[SANDBOX] = sandbox
        return found

    async def _found(
        self, scope: Scope, headers: Mapping[bytes, bytes], asked: FileSignature | None
    ) -> App | Refusal:
        """Return what a credential opens of the sandbox that it is of."""
        # Some clients send the token without the id of the sandbox they have connected to.
        access = headers.get(ACCESS, b"").decode("latin-1")
        for sandbox in await self._ids.known() if access or asked is not None else ():
            if access and self._tokens.is_access(sandbox, access):
                scope[SANDBOX] = sandbox
                return self._scopes.sandbox
            if asked is not None and self._tokens.signed(sandbox, asked):
                scope[SANDBOX] = sandbox
                return self._scopes.files
        return _WRONG


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
