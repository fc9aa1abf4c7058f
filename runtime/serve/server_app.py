"""Our own API: its door, its paths, and errors as answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.base.request_id import request_id
from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import HoldfastError
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Admission, App, Refusal, Scope
from holdfast.runtime.http_doors.request_limits import RequestRate
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.access_key_requests import PageVisitor, opened_with
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.request_gate import BearerDoor, RequestGate
from holdfast.runtime.serve.routes import (
    command_routes,
    file_routes,
    insight_routes,
    job_routes,
    kernel_routes,
    key_routes,
    notice_routes,
    port_routes,
    program_routes,
    server_routes,
    session_routes,
    sharing_routes,
    snapshot_routes,
    ssh_routes,
    task_routes,
)
from holdfast.runtime.serve.step_streams import StepStreams

OF_A_NEWER = f"this server is Holdfast {VERSION}, which is older than the client and lacks this"
logger = logging.getLogger("holdfast.serve")

DESCRIPTION = """
Sessions that persist: their shells, kernels, files and snapshots. Every path needs the token, or
an access key with the right scopes.

`Holdfast-Actor` says who acts, for the journal (`agent:api` by default); `X-Request-ID` is returned, logged
and journalled. `Idempotency-Key` lets a command or cell run once however often it is sent.
"""


PageVisitors = Callable[[bytes], PageVisitor | None]
"""Returns the visitor of a page by its key; None if it is not a key."""


class ApiDoor(BearerDoor):
    """The door of our own API, which accepts the requests that no other door does.

    Args:
        visitors: whose pages it lets in, with the rights of their keys.
    """

    streamed = frozenset({("PUT", "/files/content"), ("PUT", "/files/tree")})

    def __init__(self, rules: Admission, app: App, visitors: PageVisitors = lambda _: None) -> None:
        super().__init__(rules, app)
        self._visitors = visitors

    def takes(self, scope: Scope) -> Scope | None:
        """Return the request."""
        return scope

    def audited(self, scope: Scope) -> bool:
        """Return whether a request gets a row in the audit trail: all except checks of its health."""
        return scope["path"] not in ("/health", "/metrics") and super().audited(scope)

    async def opens(self, scope: Scope) -> App | Refusal:
        """Return the application, or the refusal. A page acts only for the actor of its key."""
        given = self.given(scope)
        if (found := self.opened_by(given, scope, self._app)) is not None:
            return found
        visitor = self._visitors(given[0]) if len(given) == 1 else None
        if visitor is None:
            return self.missing
        name = admission.ACTOR_HEADER.lower().encode()
        kept = [each for each in scope["headers"] if each[0].lower() != name]
        scope["headers"] = [*kept, (name, visitor.actor.encode())]
        if not visitor.key:
            return self._app
        key = self.rules.key_of(visitor.key)
        return self.missing if key is None else opened_with(key, self.rules, scope, self._app)


def api_door(callers: Callers, rules: Admission, visitors: PageVisitors = lambda _: None) -> ApiDoor:
    """Return the door with the API behind it."""
    return ApiDoor(rules, StepStreams(inner(callers)), visitors)


def application(callers: Callers, rules: Admission, rate: RequestRate) -> App:
    """Return the handler for a server whose only door this is."""
    return RequestGate([api_door(callers, rules)], rate, callers.metrics, callers.trail)


def inner(callers: Callers) -> FastAPI:
    """Return the API without its gate."""
    app = FastAPI(
        title="Holdfast",
        version=VERSION,
        description=DESCRIPTION,
        openapi_url="/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.callers = callers
    for router in (
        server_routes.router,
        server_routes.waits,
        server_routes.cluster,
        session_routes.router,
        command_routes.router,
        kernel_routes.router,
        program_routes.router,
        job_routes.router,
        port_routes.router,
        insight_routes.router,
        command_routes.recordings,
        file_routes.router,
        snapshot_routes.router,
        snapshot_routes.retries,
        task_routes.router,
        task_routes.artifact_paths,
        sharing_routes.router,
        notice_routes.router,
        key_routes.router,
        key_routes.trail,
        server_routes.sockets,
        ssh_routes.sockets,
    ):
        app.router.routes.extend(router.routes)  # see api_router
    app.add_exception_handler(HoldfastError, _of_library)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_server)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


async def _of_library(_: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    status = answer_forms.status_of(error)
    if status == 500:
        logger.error(json.dumps({"request": request_id(), "error": plain(str(error), 400)}))
    return JSONResponse(answer_forms.body_of(error), status, headers=answer_forms.headers_of(error))


async def _of_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()[:3]
    said = [f"{'.'.join(map(str, each['loc'][1:])) or 'the body'}: {each['msg']}" for each in found]
    unknown = any(each["type"] == "extra_forbidden" for each in found)
    hint = OF_A_NEWER if unknown else ""
    body = answer_forms.body("invalid_request", f"cannot read the request: {'; '.join(said)}", hint)
    return JSONResponse(body, 422)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = answer_forms.HTTP_CODES.get(error.status_code, "error")
    lacks = error.status_code in (404, 405)
    why = "the server does not have this path and method" if lacks else str(error.detail)
    body = answer_forms.body(code, f"cannot answer: {why}", OF_A_NEWER if lacks else "")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        # The error names the methods of one function only, and a path may have several.
        path = getattr(request.scope.get("route"), "path", "")
        methods = request.app.openapi()["paths"].get(path, {})
        headers |= {"Allow": ", ".join(sorted(map(str.upper, methods)))} if methods else {}
    return JSONResponse(body, error.status_code, headers=headers)


async def _of_server(_: Request, error: Exception) -> Response:
    logger.error("request %s failed", request_id(), exc_info=error)
    body = answer_forms.body(
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
    """Return the form of a present parameter: clients omit it in place of sending null."""
    forms = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if not forms:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return rest | (forms[0] if len(forms) == 1 else {"anyOf": forms})
