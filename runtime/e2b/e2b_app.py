"""The application of this wire: its paths, and errors as its answers."""

from __future__ import annotations

import logging

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from holdfast.base.request_id import request_id
from holdfast.errors import HoldfastError
from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.control import copy_routes, figure_routes, sandbox_routes
from holdfast.runtime.e2b.control.control_refusals import refusal
from holdfast.runtime.e2b.control.sandbox_making import OnceMade
from holdfast.runtime.e2b.e2b_door import SandboxDoor
from holdfast.runtime.e2b.filesystem import content_routes, daemon_routes, filesystem_routes, watch_routes
from holdfast.runtime.e2b.filesystem.polled_watchers import PolledWatchers
from holdfast.runtime.e2b.interpreter import interpreter_routes
from holdfast.runtime.e2b.ports.port_door import PortDoor, PortTraffic
from holdfast.runtime.e2b.process import process_routes
from holdfast.runtime.e2b.sandbox_caller import ACTOR
from holdfast.runtime.e2b.sandbox_ids import SandboxIds
from holdfast.runtime.e2b.sandbox_lives import SandboxLives
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.http_doors.door_guard import Admission, App
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.request_rate import RequestRate
from holdfast.runtime.serve.surroundings import Surrounded

TYPED = frozenset({("POST", "/process.Process/StreamInput")})
"""Methods and paths whose bodies may have any size, and take any time."""
STREAMED = frozenset({("POST", "/files")}) | TYPED
"""Methods and paths whose bodies may have any size."""
ANY = frozenset((method, "") for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
"""All paths."""
ROUTERS: tuple[APIRouter, ...] = (
    interpreter_routes.router,  # before others that have the same path of another port
    sandbox_routes.router,
    copy_routes.router,
    figure_routes.router,
    process_routes.router,
    filesystem_routes.router,
    watch_routes.router,
    content_routes.router,
    daemon_routes.router,
)
logger = logging.getLogger("holdfast.serve")


def session_ids(callers: Callers) -> SandboxIds:
    """Return the ids of all sessions, for both of the following."""

    def ids() -> list[str]:
        return [row.id for row in callers.controller(ACTOR).store.sessions()]

    return SandboxIds(lambda: callers.brief.run(ids))


def beside(
    other: App,
    callers: Callers,
    admission: Admission,
    tokens: SandboxTokens,
    rate: RequestRate,
    lives: SandboxLives,
    known: SandboxIds,
) -> App:
    """Return an application that answers the requests of this wire, and leaves the others to another one."""
    app = Surrounded(wire(callers, tokens, lives, known), rate, callers.metrics, STREAMED, TYPED)
    return SandboxDoor(app, other, admission, tokens, known.known)


def with_ports(
    other: App, callers: Callers, admission: Admission, tokens: SandboxTokens, known: SandboxIds
) -> App:
    """Return an application that connects to ports of sandboxes, and leaves other requests to another one.

    It stands before all others. Strangers may reach ports, so these have limits of their own.
    """
    traffic = PortTraffic(callers, tokens, admission)
    app = Surrounded(traffic, RequestRate(0, 1), callers.metrics, ANY, ANY)
    return PortDoor(app, other, callers, admission, tokens, known.known)


def wire(callers: Callers, tokens: SandboxTokens, lives: SandboxLives, ids: SandboxIds) -> FastAPI:
    """Return the application without what guards and limits it."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.callers, app.state.tokens = callers, tokens
    app.state.lives, app.state.ids, app.state.once = lives, ids, OnceMade()
    app.state.watchers = PolledWatchers(callers)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)  # included, each would be prepared once more
    app.add_exception_handler(HoldfastError, _of_library)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_server)
    return app


async def _of_library(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HoldfastError)
    status = e2b_errors.status_of(error)
    return _told(request, status, e2b_errors.sentence(error))


async def _of_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"][1:])) or "the body"
    return _told(request, 400, f"cannot read the request: {where}: {first['msg']}")


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        return await _of_library(request, refusal(request.url.path))
    return _told(request, error.status_code, f"cannot answer: {error.detail}")


async def _of_server(request: Request, error: Exception) -> JSONResponse:
    logger.error("request %s failed", request_id(), exc_info=error)
    return _told(request, 500, f"cannot answer: the server failed; its log has request {request_id()}")


def _told(request: Request, status: int, message: str) -> JSONResponse:
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse(e2b_errors.body(request.url.path, status, message), status, headers=headers)
