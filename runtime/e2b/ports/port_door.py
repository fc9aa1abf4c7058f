"""Who may reach the port of a sandbox, and the answer if it cannot be reached.

It stands before everything else of the server: what is sent to the name of a port reaches no other path. A
port is open to those with the server's token or one of its sandbox, and to all others if the maker of the
sandbox wanted that. Every session is a sandbox here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import HTTPConnection

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, PortClosed
from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.ports import port_heads, port_names, port_sockets
from holdfast.runtime.e2b.ports.port_exchange import AnswerCut, PortExchange
from holdfast.runtime.e2b.ports.port_names import PortName
from holdfast.runtime.e2b.ports.port_sockets import PortSocket
from holdfast.runtime.e2b.sandbox_caller import ACTOR, SandboxCaller
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.e2b.sandbox_ids import SandboxIds
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.guest_rpc import port_calls
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.http_doors import door_guard
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Scope, Send
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.session_links import SessionLinks

PORT = "holdfast.port"
"""The key of a request's scope under which the door notes the port that it is for."""

NOT_FOUND = "The sandbox was not found"
"""The words of E2B's proxy, which its clients look for."""


class PortDoor:
    """Lets requests for ports pass to `traffic`, and all others to `other`."""

    def __init__(
        self,
        traffic: App,
        other: App,
        callers: Callers,
        admission: Admission,
        tokens: SandboxTokens,
        ids: SandboxIds,
    ) -> None:
        self._traffic, self._other, self._callers = traffic, other, callers
        self._admission, self._tokens, self._ids = admission, tokens, ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the others do it."""
        headers = dict(scope.get("headers", ()))
        name = port_names.named(headers)
        if name is None:
            await self._other(scope, receive, send)
        elif name.own and name.domain is not None and self._admission.is_here(name.domain):
            await self._other(_said(scope, name.domain, name), receive, send)
        elif (refusal := self._elsewhere(scope, name) or await self._refusal(scope, name, headers)) is None:
            scope[PORT] = name
            await self._traffic(scope, receive, send)
        else:
            await answer(scope, send, name, *refusal)

    def _elsewhere(self, scope: Scope, name: PortName) -> tuple[int, str] | None:
        """Return why a request is refused that came by another name than those of this server."""
        if not name.possible:
            return 400, f"there is no port {name.port}"
        # What pages of other origins may do is for the server in the session to say.
        if name.domain is not None and self._admission.is_here(name.domain):
            return None
        refusal = self._admission.elsewhere(scope)
        return None if refusal is None else (refusal[0], refusal[2])

    async def _refusal(
        self, scope: Scope, name: PortName, headers: Mapping[bytes, bytes]
    ) -> tuple[int, str] | None:
        access, traffic = (
            headers.get(each, b"").decode("latin-1") for each in (port_heads.ACCESS, port_heads.TRAFFIC)
        )
        own = self._tokens.is_access(name.sandbox, access) | self._tokens.is_traffic(name.sandbox, traffic)
        own |= self._admission.has_token(scope)
        try:
            if own and await self._ids.has(name.sandbox):
                scope[ADMITTED] = True
                return None
            if name.sandbox not in await self._ids.known():
                return 502, NOT_FOUND
            public = await self._callers.brief.run(partial(self._is_public, name.sandbox))
        except HoldfastError as error:
            return e2b_errors.status_of(error), str(error)
        if public:
            return None
        return 403, (
            "the ports of the sandbox need its traffic access token, as header e2b-traffic-access-token, "
            "or the server's token as `Authorization: Bearer`; "
            "or make it with network={'allow_public_traffic': True}"
        )

    def _is_public(self, sandbox: str) -> bool:
        row = self._callers.controller(ACTOR).store.find_session(sandbox)
        facts = None if row is None else SandboxFacts.of(row)
        return facts is not None and facts.public_ports


class PortTraffic:
    """Connects those whom the door has let in."""

    def __init__(self, callers: Callers, tokens: SandboxTokens, admission: Admission) -> None:
        self._callers, self._tokens, self._admission = callers, tokens, admission
        self._links = SessionLinks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Connect to the port, and pass on both ways."""
        name: PortName = scope[PORT]
        host: list[bytes] = []

        def connect() -> Any:
            caller = SandboxCaller(HTTPConnection(scope), self._callers, self._tokens)
            session = caller.session(name.sandbox)
            host.append(_host(scope, name, SandboxFacts.of(session.row)))
            line = SessionChannel(caller.holdfast().context, lambda: session.row)
            return port_calls.port_socket(line, name.port)

        websocket = scope["type"] == "websocket"
        try:
            async with self._links.opened(name.sandbox, connect, websocket=websocket) as stream:
                is_token, stopped = self._admission.is_token, self._callers.stopped
                if websocket:
                    offered = port_heads.subprotocols(scope, is_token)
                    key, more = port_sockets.handshake(offered)
                    request = port_heads.request(scope, host[0], is_token, more)
                    await PortSocket(stream, receive, send).run(request, key, offered, stopped)
                else:
                    request = port_heads.request(scope, host[0], is_token, [(b"connection", b"close")])
                    await PortExchange(stream, receive, send).run(request, stopped)
        except AnswerCut:
            raise
        except PortClosed:
            await answer(scope, send, name, 502, f"port {name.port} of the sandbox: the port is not open")
        except HoldfastError as error:
            await answer(scope, send, name, e2b_errors.status_of(error), e2b_errors.sentence(error))


async def answer(scope: Scope, send: Send, name: PortName, status: int, why: str) -> None:
    """Answer in the form of E2B's proxy."""
    message = why if why.startswith(("cannot", NOT_FOUND)) else f"cannot answer: {why}"
    told = {"sandboxId": name.sandbox, "port": name.port, "code": status, "message": plain(message, 2000)}
    await door_guard.answer(scope, send, status, told, [(b"retry-after", b"1")] if status == 503 else [])


def _said(scope: Scope, domain: bytes, name: PortName) -> Scope:
    """Return a scope whose headers say what the name of a port of this server's does."""
    said = {
        b"host": domain,
        port_names.SANDBOX_ID: name.sandbox.encode(),
        port_names.SANDBOX_PORT: str(name.port).encode(),
    }
    return {**scope, "headers": [*(each for each in scope["headers"] if each[0] not in said), *said.items()]}


def _host(scope: Scope, name: PortName, facts: SandboxFacts | None) -> bytes:
    """Return the name under which the server in the session sees a request."""
    if facts is not None and facts.request_host:
        return facts.request_host.replace("${PORT}", str(name.port)).encode()
    if name.domain is None:
        return f"localhost:{name.port}".encode()
    return bytes(dict(scope["headers"]).get(b"host", b"localhost"))
