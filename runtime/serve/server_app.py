"""The application: its paths, what surrounds every request, and errors as answers."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.base.request_id import begin_request, request_id
from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import HoldfastError
from holdfast.runtime.http_doors.body_limits import limited
from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Scope, Send, guarded
from holdfast.runtime.serve import error_answers
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.request_rate import RequestRate
from holdfast.runtime.serve.routes import (
    channel_routes,
    command_routes,
    file_routes,
    insight_routes,
    kernel_routes,
    program_routes,
    server_routes,
    session_routes,
    snapshot_routes,
    task_routes,
)
from holdfast.runtime.serve.server_metrics import ServerMetrics

REQUEST_ID = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
STREAMED = frozenset({("PUT", "/files/content"), ("PUT", "/files/tree")})
"""Methods and ends of paths whose bodies may have any size."""
logger = logging.getLogger("holdfast.serve")

DESCRIPTION = """
Sessions that persist: their shells, kernels, files and snapshots. Every path needs the token.

`Holdfast-Actor` says who acts, for the journal (`agent:api` by default); `X-Request-ID` is returned, logged
and journalled. `Idempotency-Key` lets a command or cell run once however often it is sent.
"""


def application(callers: Callers, admission: Admission, rate: RequestRate) -> App:
    """Return what answers the requests of those who are admitted."""
    return guarded(_Surrounded(inner(callers), rate), admission)


def inner(callers: Callers) -> FastAPI:
    """Return the application without what guards and limits it."""
    app = FastAPI(
        title="Holdfast",
        version=VERSION,
        description=DESCRIPTION,
        openapi_url="/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: (
            f"{route.tags[0]}.{route.name}" if route.tags else route.name
        ),
    )
    app.state.callers = callers
    app.state.metrics = ServerMetrics(lambda: callers.waiting.running, lambda: callers.brief.running)
    for each in (
        server_routes,
        session_routes,
        command_routes,
        kernel_routes,
        program_routes,
        task_routes,
        insight_routes,
        file_routes,
        snapshot_routes,
        channel_routes,
    ):
        app.include_router(each.router)
    app.add_exception_handler(HoldfastError, _of_library)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_server)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


class _Surrounded:
    """What surrounds every request: its id, its log, its figures, its limits."""

    def __init__(self, app: FastAPI, rate: RequestRate) -> None:
        self._app = app
        self._limited = limited(app, STREAMED)
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._limited(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"")
        id_ = given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
        begin_request(id_)
        began, status, began_answer = time.monotonic(), 500, False

        async def named(message: MutableMapping[str, Any]) -> None:
            nonlocal status, began_answer
            if message["type"] == "http.response.start":
                status, began_answer = message["status"], True
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, id_.encode())]
            await send(message)

        try:
            if (seconds := self._rate.refused()) is not None:
                await _too_many(seconds)(scope, receive, named)
            else:
                await self._limited(scope, receive, named)
        except Exception as error:
            if not began_answer:
                raise
            logger.error(json.dumps({"request": id_, "cut_short": plain(str(error), 400)}))
        finally:
            self._note(scope, id_, status, time.monotonic() - began)

    def _note(self, scope: Scope, id_: str, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "none")
        self._app.state.metrics.answered(scope["method"], path, status, seconds)
        told = {
            "request": id_,
            "method": scope["method"],
            "path": plain(scope["path"], 200),
            "status": status,
            "seconds": round(seconds, 4),
        }
        logger.info(json.dumps(told))


def _too_many(seconds: float) -> Response:
    body = error_answers.body(
        "too_many_requests", "cannot answer: too many requests", "send fewer in a second"
    )
    return JSONResponse(body, 429, headers={"Retry-After": str(max(1, round(seconds)))})


async def _of_library(_: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    status = error_answers.status_of(error)
    if status == 500:
        logger.error(json.dumps({"request": request_id(), "error": plain(str(error), 400)}))
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse(error_answers.body_of(error), status, headers=headers)


async def _of_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()[:3]
    said = [f"{'.'.join(map(str, each['loc'][1:])) or 'the body'}: {each['msg']}" for each in found]
    body = error_answers.body("invalid_request", f"cannot read the request: {'; '.join(said)}")
    return JSONResponse(body, 422)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = error_answers.HTTP_CODES.get(error.status_code, "error")
    body = error_answers.body(code, f"cannot answer: {error.detail}")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        # The error names the methods of one function only, and a path may have several.
        path = getattr(request.scope.get("route"), "path", "")
        methods = request.app.openapi()["paths"].get(path, {})
        headers |= {"Allow": ", ".join(sorted(map(str.upper, methods)))} if methods else {}
    return JSONResponse(body, error.status_code, headers=headers)


async def _of_server(_: Request, error: Exception) -> Response:
    logger.error("request %s failed", request_id(), exc_info=error)
    body = error_answers.body(
        "internal_error", "cannot answer: the server failed", f"its log has request {request_id()}"
    )
    return JSONResponse(body, 500)


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the token that every path needs."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        made.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
        for path in made["paths"].values():
            for operation in path.values():
                for parameter in operation.get("parameters", ()):
                    parameter["schema"] = _present(parameter["schema"])
        app.openapi_schema = made
    return app.openapi_schema


def _present(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a parameter that is there: no client can send null, it leaves the parameter out."""
    forms = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if not forms:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return rest | (forms[0] if len(forms) == 1 else {"anyOf": forms})
