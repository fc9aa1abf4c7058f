"""The application of this wire: who is let in, its paths, and errors as its answers."""

from __future__ import annotations

import logging
import re

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from holdfast.base.request_id import request_id
from holdfast.errors import HoldfastError
from holdfast.runtime.http_doors import door_guard
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Refusal, Scope, Send
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.surroundings import RequestRate, Surrounded
from holdfast.runtime.swerex import runtime_failures, runtime_routes
from holdfast.runtime.swerex.ascii_answers import AsciiAnswer
from holdfast.runtime.swerex.unread_output import UnreadOutput

STREAMED = frozenset({("POST", "/upload")})
"""Methods and ends of paths whose bodies may be large."""
KEY = b"x-api-key"
_PATH = re.compile(r"/swerex(/|$)")
logger = logging.getLogger("holdfast.serve")


class RuntimeDoor:
    """The door of this wire, known by its paths; `other` answers what is not of it."""

    def __init__(self, app: App, other: App, admission: Admission) -> None:
        self._app, self._other, self._admission = app, other, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the others do it."""
        if scope["type"] != "http" or not _PATH.match(scope["path"]):
            await self._other(scope, receive, send)
            return
        refusal = self._admission.elsewhere(scope) or self._refusal(scope)
        if refusal is None:
            scope[ADMITTED] = True
            await self._app(scope, receive, send)
        else:
            status, _, why = refusal
            await door_guard.answer(scope, send, status, {"detail": f"cannot answer: {why}"})

    def _refusal(self, scope: Scope) -> Refusal | None:
        given = [value for name, value in scope["headers"] if name.lower() == KEY]
        if len(given) == 1 and self._admission.is_token(given[0]):
            return None
        return 401, "unauthorized", "send the server's token as auth_token of the runtime (X-API-Key)"


def beside(other: App, callers: Callers, admission: Admission, rate: RequestRate) -> App:
    """Return an application that answers the requests of this wire, and leaves the others to another one."""
    return RuntimeDoor(Surrounded(wire(callers), rate, callers.metrics, STREAMED), other, admission)


def wire(callers: Callers) -> FastAPI:
    """Return the application without what guards and limits it."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.callers, app.state.unread = callers, UnreadOutput()
    app.router.routes.extend(runtime_routes.router.routes)  # included, each would be prepared once more
    app.add_exception_handler(HoldfastError, _of_library)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_server)
    return app


async def _of_library(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HoldfastError)
    return AsciiAnswer(runtime_failures.body_of(error), runtime_failures.STATUS)


async def _of_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"][1:])) or "the body"
    message = f"cannot read the request: {where}: {first['msg']}"
    return AsciiAnswer(runtime_failures.body("builtins.ValueError", message), runtime_failures.STATUS)


async def _of_http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return AsciiAnswer({"detail": f"cannot answer: {error.detail}"}, error.status_code, headers=headers)


async def _of_server(_: Request, error: Exception) -> JSONResponse:
    logger.error("request %s failed", request_id(), exc_info=error)
    message = f"cannot answer: the server failed; its log has request {request_id()}"
    return AsciiAnswer({"detail": message}, 500)
