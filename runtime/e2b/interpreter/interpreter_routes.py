"""Paths of the code interpreter. They are those of one port of a sandbox, as clients see it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from holdfast.runtime.e2b.interpreter import context_languages
from holdfast.runtime.e2b.interpreter import sandbox_contexts as contexts
from holdfast.runtime.e2b.interpreter.code_executions import Execution, execute
from holdfast.runtime.e2b.ports.port_names import SANDBOX_PORT
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller, sandbox_caller
from holdfast.runtime.e2b.wire_bodies import WireBody

PORT = b"49999"


class InterpreterRoute(APIRoute):
    """A path of this port: others may have the same one."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for it."""
        if dict(scope.get("headers", ())).get(SANDBOX_PORT) != PORT:
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(route_class=InterpreterRoute)
contexts_router = APIRouter(prefix="/contexts", route_class=InterpreterRoute)
"""The paths for which some clients send the traffic token alone; none of them runs code that is sent."""
From = Annotated[SandboxCaller, Depends(sandbox_caller)]


class NewContext(WireBody):
    """A context to be made."""

    language: str | None = None
    cwd: str | None = None


@router.get("/health")
async def health(who: From) -> Response:
    """Answer if the sandbox runs."""
    await who.in_session(who.sandbox, lambda found: found.id)
    return PlainTextResponse("OK")


@router.post("/execute")
async def run_code(who: From, body: Execution) -> Response:
    """Run code, and send its lines as they come. A client that leaves interrupts it."""
    return await execute(who, body)


@contexts_router.post("")
async def make_context(who: From, body: NewContext) -> dict[str, Any]:
    """Make a context."""
    language = context_languages.language_named(body.language)
    return contexts.described(
        await who.in_session(who.sandbox, lambda found: contexts.opened(found, language, body.cwd or None))
    )


@contexts_router.get("")
async def list_contexts(who: From) -> list[dict[str, Any]]:
    """List the contexts."""
    return await who.in_session(who.sandbox, contexts.listed)


@contexts_router.delete("/{context}", status_code=204)
async def remove_context(who: From, context: str) -> Response:
    """End a context."""
    await who.in_session(who.sandbox, lambda found: contexts.removed(found, context))
    return Response(status_code=204)


@contexts_router.post("/{context}/restart", status_code=204)
async def restart_context(who: From, context: str) -> Response:
    """Restart a context."""
    await who.in_session(who.sandbox, lambda found: contexts.restarted(found, context))
    return Response(status_code=204)
