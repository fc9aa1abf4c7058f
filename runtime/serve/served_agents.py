"""Agents on the server's own port: the tools of `holdfast mcp`, for those with the server's token.

Needs the package `mcp`. Its streams have no end of their own: they are ended when the server is.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings

from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Scope, Send, guarded
from holdfast.runtime.mcp.agent_server import AgentServer
from holdfast.runtime.mcp.http_door import IDLE_SECONDS, MOST_CONNECTIONS, PATH
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.request_rate import RequestRate
from holdfast.runtime.serve.surroundings import Surrounded

SESSION = "agent"
"""The session for calls that name none."""


class ServedAgents:
    """Answers the requests of agents, and leaves the others to another application."""

    def __init__(
        self, server: AgentServer, other: App, callers: Callers, admission: Admission, rate: RequestRate
    ) -> None:
        self._inner = server.streamable_http_app(
            streamable_http_path=PATH,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MOST_CONNECTIONS,
            # The admission knows by which names this server is reached, and from which pages.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._app = guarded(Surrounded(self._inner, rate, callers.metrics, frozenset()), admission)
        self._other = other
        self._callers = callers

    def running(self) -> AbstractAsyncContextManager[object]:
        """Return the life of the sessions of agents, to be entered before the first request."""
        return self._inner.router.lifespan_context(self._inner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the others do it."""
        if scope["type"] == "http" and scope["path"] == PATH:
            await self._until_the_end(scope, receive, send)
        else:
            await self._other(scope, receive, send)

    async def _until_the_end(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = ended = False

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun, ended
            begun = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        answering = asyncio.ensure_future(self._app(scope, receive, noted))
        stopped = asyncio.ensure_future(self._callers.stopped.wait())
        try:
            await asyncio.wait({answering, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            left = answering.cancel()
        if not left:
            answering.result()
            return
        with suppress(asyncio.CancelledError):
            await answering
        if not begun:
            await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
        if not ended:
            await send({"type": "http.response.body", "body": b""})
