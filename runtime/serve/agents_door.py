"""The door for agents on the server's own port: its path, its lifetime, its end.

The application is made for the first request that has the token: the package `mcp`, which it needs, takes
half as long to load as all the rest of the server. Admission, and the limits of requests, are decided
before they arrive here. Their streams have no end of their own: the server ends them when it ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse

from holdfast.base.extras import install_command
from holdfast.base.text import plain
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.http_doors.admission import KEY, Admission, Receive, Scope, Send
from holdfast.runtime.mcp.http_door import PATH
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.request_gate import BearerDoor

logger = logging.getLogger("holdfast.serve")


class AgentsNotLoaded(Exception):
    """The application of agents cannot be made; the cause says why."""


class AgentsDoor(BearerDoor):
    """The door for agents.

    Args:
        make: returns the application of agents; called in a thread, at the first request.
    """

    acts_as = "agent"

    def __init__(self, make: Callable[[], Starlette], callers: Callers, rules: Admission) -> None:
        super().__init__(rules, self._until_the_end)
        self._make, self._callers = make, callers
        self._asked = asyncio.Event()
        self._made: asyncio.Future[Starlette] | None = None
        """The application, once it lives; replaced after an attempt that failed."""

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request of an agent."""
        return scope if scope["type"] == "http" and scope["path"] == PATH else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let the sessions of agents live; to be entered before the first request, on the server's loop."""
        self._made = asyncio.get_running_loop().create_future()
        # One task enters and leaves their lifespan; a request's own task ends with its answer.
        living = asyncio.create_task(self._live())
        try:
            yield
        finally:
            living.cancel()
            with suppress(asyncio.CancelledError):
                await living

    async def _live(self) -> None:
        while True:
            await self._asked.wait()
            assert self._made is not None
            try:
                made = await asyncio.to_thread(self._make)
            except Exception as error:
                logger.exception("cannot load what serves agents")
                failed, self._made = self._made, asyncio.get_running_loop().create_future()
                self._asked.clear()
                failed.set_exception(AgentsNotLoaded(plain(f"{type(error).__name__}: {error}", 400)))
                continue
            async with made.router.lifespan_context(made):
                self._made.set_result(made)
                await asyncio.Event().wait()  # until it is cancelled

    async def _agents(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has been admitted."""
        self._asked.set()
        assert self._made is not None
        try:
            made = await asyncio.shield(self._made)  # others wait for it as well
        except AgentsNotLoaded as error:
            body = answer_forms.body(
                "internal_error",
                f"cannot serve agents: {error}",
                f"`{install_command('serve', 'mcp')}`",
            )
            await JSONResponse(body, 500)(scope, receive, send)
            return
        _own(scope)
        await made(scope, receive, send)

    async def _until_the_end(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = ended = False

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal begun, ended
            begun = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        answering = asyncio.ensure_future(self._agents(scope, receive, noted))
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


def _own(scope: Scope) -> None:
    """Let a conversation be continued with the access key alone that began it."""
    key: AccessKey | None = scope.get(KEY)
    if key is not None:
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        scope["user"] = AuthenticatedUser(AccessToken(token=key.id, client_id=key.id, scopes=[]))
