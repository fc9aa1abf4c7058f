"""The application of this wire: its paths, and errors as its answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from holdfast.base.request_id import request_id
from holdfast.errors import HoldfastError
from holdfast.runtime.e2b import e2b_errors
from holdfast.runtime.e2b.e2b_door import SandboxDoor
from holdfast.runtime.e2b.sandbox_caller import ACTOR
from holdfast.runtime.e2b.sandbox_tokens import SandboxTokens
from holdfast.runtime.http_doors.door_guard import Admission, App
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.request_rate import RequestRate
from holdfast.runtime.serve.surroundings import Surrounded

STREAMED = frozenset({("POST", "/files"), ("POST", "/process.Process/StreamInput")})
"""Methods and paths whose bodies may have any size."""
IDS_SECONDS = 1.0
ROUTERS: tuple[APIRouter, ...] = ()
logger = logging.getLogger("holdfast.serve")


def beside(other: App, callers: Callers, admission: Admission, token: str, rate: RequestRate) -> App:
    """Return an application that answers the requests of this wire, and leaves the others to another one."""
    tokens = SandboxTokens(token)
    app = Surrounded(wire(callers, tokens), rate, callers.metrics, STREAMED)
    return SandboxDoor(app, other, admission, tokens, _Ids(callers).read)


def wire(callers: Callers, tokens: SandboxTokens) -> FastAPI:
    """Return the application without what guards and limits it."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.callers, app.state.tokens = callers, tokens
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(HoldfastError, _of_library)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_server)
    return app


class _Ids:
    """The ids of all sessions, read at most once a second: strangers can ask, too."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._read_at = float("-inf")
        self._ids: Iterable[str] = ()

    async def read(self) -> Iterable[str]:
        if time.monotonic() - self._read_at > IDS_SECONDS:
            self._read_at = time.monotonic()
            self._ids = await self._callers.brief.run(self._listed)
        return self._ids

    def _listed(self) -> list[str]:
        return [row.id for row in self._callers.controller(ACTOR).store.sessions()]


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
    status = 501 if error.status_code in (404, 405) else error.status_code
    told = "cannot answer: sessions have nothing of this path" if status == 501 else str(error.detail)
    return _told(request, status, told)


async def _of_server(request: Request, error: Exception) -> JSONResponse:
    logger.error("request %s failed", request_id(), exc_info=error)
    return _told(request, 500, f"cannot answer: the server failed; its log has request {request_id()}")


def _told(request: Request, status: int, message: str) -> JSONResponse:
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse(e2b_errors.body(request.url.path, status, message), status, headers=headers)
