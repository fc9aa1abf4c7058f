"""The applications of this wire: their paths, and errors as their answers."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.base.request_id import request_id
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, QuotaReached, SessionNotFound
from holdfast.runtime.e2b import (
    code_interpreter,
    connect_wire,
    content_service,
    control_routes,
    filesystem_service,
    folder_watches,
    process_service,
    sandbox_lives,
)
from holdfast.runtime.e2b.connect_wire import NotOffered
from holdfast.runtime.e2b.folder_watches import PolledWatchers
from holdfast.runtime.e2b.sandbox_access import (
    ACTOR,
    SandboxIds,
    SandboxTokens,
    Scopes,
)
from holdfast.runtime.e2b.sandbox_making import OnceMade
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.lifetime_task import LifetimeTask

_REASONS = (
    (
        "templates",
        "cannot build or list templates: a template is a snapshot here",
        "prepare a sandbox, take a snapshot of it, and make sandboxes from that",
    ),
    (
        "volumes",
        ("cannot keep volumes: this server does not have any"),
        "fork or snapshot a sandbox that has the files",
    ),
    (
        "secrets",
        "cannot store secrets over this wire",
        "`holdfast new --secret` makes a session that uses some",
    ),
    ("teams|nodes", "cannot list teams or nodes: this server has one user and one machine", ""),
    (
        "sandboxes/[^/]+/logs",
        "cannot return the log of a sandbox over this interface",
        "`holdfast journal` and `holdfast events` report what happened in it",
    ),
)


def refusal(path: str) -> NotOffered:
    """Return the reason why a path is refused."""
    rest = re.sub(r"^/(v[23]/)?", "", path)
    for pattern, why, hint in _REASONS:
        if re.match(rf"({pattern})(/|$)", rest):
            return NotOffered(why, hint=hint)
    return NotOffered("cannot answer: sandboxes do not offer this path and method")


CONTROL = (control_routes.router, control_routes.router, control_routes.router)
CONTEXTS = (code_interpreter.contexts_router,)
FILES = (content_service.router,)
SANDBOX = (
    code_interpreter.router,  # before others that have the same path of another port
    *CONTEXTS,
    process_service.router,
    filesystem_service.router,
    folder_watches.router,
    *FILES,
    filesystem_service.daemon_router,
)
logger = logging.getLogger("holdfast.serve")


def session_ids(callers: Callers) -> SandboxIds:
    """Return the ids of all sessions, for both of the following."""

    def ids() -> Iterable[str]:
        rows = callers.controller(ACTOR).store.sessions()
        return dict.fromkeys(row.id for row in rows if not sandbox_lives.ended(row))

    return SandboxIds(lambda: callers.brief.run(ids))


def wire(callers: Callers, tokens: SandboxTokens, lives: LifetimeTask, ids: SandboxIds) -> Scopes:
    """Return the applications behind the door, by the credential that opens each."""
    once, watchers = OnceMade(), PolledWatchers(callers)

    def made(routers: Iterable[APIRouter]) -> FastAPI:
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        app.state.callers, app.state.tokens, app.state.lives, app.state.ids = callers, tokens, lives, ids
        app.state.once, app.state.watchers = once, watchers
        for router in routers:
            app.router.routes.extend(router.routes)  # included, each would be prepared once more
        app.add_exception_handler(HoldfastError, _of_library)
        app.add_exception_handler(RequestValidationError, _of_request)
        app.add_exception_handler(HTTPException, _of_http)
        app.add_exception_handler(Exception, _of_server)
        return app

    return Scopes(made(CONTROL), made(SANDBOX), made(CONTEXTS), made(FILES))


async def _of_library(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    status, text = connect_wire.status_of(error), connect_wire.sentence(error)
    if isinstance(error, SessionNotFound) and "sandbox" in request.path_params:
        status = 404  # a path of the control plane, which the key of another session does not open
    if isinstance(error, QuotaReached):
        text = f"Rate limit exceeded: {text}"  # as clients know it
    return _told(request, status, text, answer_forms.headers_of(error))


async def _of_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"][1:])) or "the body"
    return _told(request, 400, f"cannot read the request: {where}: {first['msg']}")


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        return await _of_library(request, refusal(request.url.path))
    return _told(request, error.status_code, f"cannot answer: {error.detail}")


async def _of_server(request: Request, error: Exception) -> Response:
    logger.error("request %s failed", request_id(), exc_info=error)
    return _told(request, 500, f"cannot answer: the server failed; its log has request {request_id()}")


def _told(request: Request, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that reports an error.

    A streaming RPC ends with it: clients read it there, and take another status for one of a proxy. A
    stopped sandbox gives the same answer.
    """
    if status != 502 and request.headers.get("content-type", "").startswith(connect_wire.MEDIA_TYPE):
        end = connect_wire.last(connect_wire.rpc_code(status), plain(message, 2000))
        return Response(end, media_type=connect_wire.MEDIA_TYPE)
    return JSONResponse(connect_wire.error_body(request.url.path, status, message), status, headers=headers)
