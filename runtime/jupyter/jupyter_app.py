"""The application of this wire: who is let in, its paths, and errors as its answers."""

from __future__ import annotations

import logging
import re
from urllib.parse import parse_qsl, unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.base.request_id import request_id
from holdfast.errors import HoldfastError
from holdfast.runtime.http_doors import door_guard
from holdfast.runtime.http_doors.door_connections import ADMITTED
from holdfast.runtime.http_doors.door_guard import Admission, App, Receive, Refusal, Scope, Send
from holdfast.runtime.jupyter import gateway_failures, jupyter_routes
from holdfast.runtime.jupyter.kernel_table import KernelTable
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.session_links import SessionLinks
from holdfast.runtime.serve.surroundings import RequestRate, Surrounded

_PATH = re.compile(r"(?:/jupyter(?:/(?P<session>[^/]{1,200}))?)?(?P<rest>/api(?:/.*)?)", re.DOTALL)
_SCHEMES = (b"token", b"bearer")
_WRONG: Refusal = (
    401,
    "unauthorized",
    "send the server's token as `Authorization: token TOKEN`, or `?token=TOKEN`",
)
logger = logging.getLogger("holdfast.serve")


class GatewayDoor:
    """The door of this wire, known by its paths; `other` answers what is not of it."""

    def __init__(self, app: App, other: App, admission: Admission) -> None:
        self._app, self._other, self._admission = app, other, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the others do it."""
        found = _PATH.fullmatch(scope["path"]) if scope["type"] in ("http", "websocket") else None
        if found is None:
            await self._other(scope, receive, send)
            return
        refusal = self._admission.elsewhere(scope) or self._refusal(scope)
        if refusal is None:
            session = found["session"]
            scope = {**scope, "path": found["rest"], "raw_path": found["rest"].encode("utf-8", "replace")}
            scope |= {ADMITTED: True, jupyter_routes.ONLY: session and unquote(session)}
            await self._app(scope, receive, send)
        else:
            status, code, why = refusal
            told = gateway_failures.body(f"cannot answer: {why}", code)
            await door_guard.answer(scope, send, status, told)

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Return why a request is refused that has no token, or several."""
        given = []
        for name, value in scope["headers"]:
            if name.lower() == b"authorization":
                scheme, _, token = value.partition(b" ")
                given.append(token.strip() if scheme.lower() in _SCHEMES else b"")
        query = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=100) if not given else []
        given += [value.encode("utf-8", "replace") for name, value in query if name == "token"]
        return None if len(given) == 1 and self._admission.is_token(given[0]) else _WRONG


def beside(other: App, callers: Callers, admission: Admission, rate: RequestRate) -> App:
    """Return an application that answers the requests of this wire, and leaves the others to another one."""
    app = Surrounded(gateway(callers), rate, callers.metrics, frozenset())
    return GatewayDoor(app, other, admission)


def gateway(callers: Callers) -> Starlette:
    """Return the application without what guards and limits it."""
    app = Starlette(
        routes=jupyter_routes.routes(),
        exception_handlers={HoldfastError: _of_library, HTTPException: _of_http, Exception: _of_server},
    )
    app.router.redirect_slashes = False
    app.state.callers, app.state.table, app.state.links = callers, KernelTable(), SessionLinks()
    return app


async def _of_library(_: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return gateway_failures.answer(error)


async def _of_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = gateway_failures.body(f"cannot answer: {error.detail}", "http")
    return JSONResponse(told, error.status_code, headers=dict(error.headers or {}))


async def _of_server(_: Request, error: Exception) -> Response:
    logger.error("request %s failed", request_id(), exc_info=error)
    message = f"cannot answer: the server failed; its log has request {request_id()}"
    return JSONResponse(gateway_failures.body(message, "internal_error"), 500)
