"""The application of a kernel gateway: its admission, its paths, and errors as its answers.

A front end can start, interrupt and restart kernels; it ends none. Front ends send `DELETE` when a tab is
closed: the kernel stays, with the variables of the agent.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from holdfast.base.request_id import request_id
from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import (
    GuestDisconnected,
    HoldfastError,
    InvalidArgument,
    SessionDead,
    SessionError,
    SessionNotFound,
)
from holdfast.runtime.api.session_kernels import SessionKernel
from holdfast.runtime.guest import defaults
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Refusal, Scope, Send
from holdfast.runtime.jupyter import kernel_table
from holdfast.runtime.jupyter.front_end_socket import FrontEndSocket, counted
from holdfast.runtime.jupyter.kernel_table import GatewayKernel, KernelTable
from holdfast.runtime.jupyter.notebook_sessions import NotebookSession, NotebookSessions
from holdfast.runtime.serve import answer_forms, key_rules
from holdfast.runtime.serve.callers import ApiCaller, Callers, chosen_actor
from holdfast.runtime.serve.request_gate import TokenDoor
from holdfast.runtime.serve.session_links import SessionLinks

RETRY_SECONDS = 5


def error_status(error: HoldfastError) -> int:
    """Return the status of an answer that reports this error.

    A session that does not run now, but can soon, is unavailable; a dead one has lost its kernels.
    """
    if isinstance(error, SessionNotFound | SessionDead):
        return 404
    if isinstance(error, SessionError | GuestDisconnected):
        return 503
    return answer_forms.status_of(error)


def error_answer(error: HoldfastError) -> JSONResponse:
    """Return the answer that reports this error."""
    status = error_status(error)
    message = f"{error}; {error.hint}" if error.hint else str(error)
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
    return JSONResponse(error_body(message, error.code), status, headers=headers)


def error_body(message: str, reason: str) -> dict[str, Any]:
    """Return the body of an answer that reports an error."""
    return {"message": plain(message, 2000), "reason": reason}


ACTOR = "person:jupyter"
"""Who acts if a front end does not say."""
ONLY = "holdfast.jupyter.session"
"""The key of a request's scope under which the door notes the one session that a path is for."""
API_VERSION = "2.0.0"
MOST_BODY = 1 << 20


class _Request:
    """The context of a request."""

    def __init__(self, connection: HTTPConnection) -> None:
        state = connection.app.state
        self.connection = connection
        self.table: KernelTable = state.table
        self.notebooks: NotebookSessions = state.notebooks
        self.only: str | None = key_rules.permitted_here(
            connection, f"jupyter.{connection.scope['endpoint'].__name__}", connection.scope.get(ONLY)
        )
        self.caller = ApiCaller(connection, state.callers, chosen_actor(connection, ACTOR))

    async def kernel(self) -> GatewayKernel:
        found = await self.table.find(self.caller, self.connection.path_params["kernel"], self.only)
        self.connection.scope[admission.SANDBOX] = found.row.id
        return found

    async def kernels(self) -> list[GatewayKernel]:
        return await self.table.kernels(self.caller, self.only)

    async def call(self, kernel: GatewayKernel, verb: Callable[[SessionKernel, str], None]) -> None:
        """Act on a kernel in its session."""
        await self.caller.in_session(
            kernel.row.id, lambda session: verb(SessionKernel(session._line), kernel.info.name)
        )

    async def current(self, kernel: GatewayKernel) -> dict[str, Any]:
        """Return the model of a kernel as its session reports it now."""
        found = await self.table.kernels(self.caller, kernel.row.id)
        return self.table.model(next((each for each in found if each.id == kernel.id), kernel))


async def version(_: Request) -> Response:
    """Say which API this is, to everyone who is let in."""
    return JSONResponse({"version": API_VERSION, "holdfast": VERSION})


async def status(request: Request) -> Response:
    """Report the numbers of kernels and connections."""
    asked = _Request(request)
    table, kernels = asked.table, await asked.kernels()
    latest = max(table.activity.values(), default=table.began)
    told = {
        "started": kernel_table.written_time(table.began),
        "last_activity": kernel_table.written_time(latest),
        "connections": sum(table.connections.get(each.id, 0) for each in kernels),
        "kernels": len(kernels),
    }
    return JSONResponse(told)


async def specs(request: Request) -> Response:
    """List a spec for each kernel of the sessions that run."""
    kernels = await _Request(request).kernels()
    found = {each.spec: kernel_table.spec_model(each) for each in kernels}
    return JSONResponse({"default": next(iter(found), ""), "kernelspecs": found})


async def spec(request: Request) -> Response:
    """Describe the spec of one kernel."""
    asked = _Request(request)
    kernel = await asked.table.named(asked.caller, request.path_params["spec"], asked.only)
    return JSONResponse(kernel_table.spec_model(kernel))


async def kernels(request: Request) -> Response:
    """List the kernels of the sessions that run."""
    asked = _Request(request)
    return JSONResponse([asked.table.model(each) for each in await asked.kernels()])


async def start(request: Request) -> Response:
    """Return the kernel that a spec leads to; it runs already."""
    asked, body = _Request(request), await _json_body(request)
    spec = _text(body, "name")
    await asked.table.wake(asked.caller, lambda row: kernel_table.leads_to(row, spec), asked.only)
    kernel = await asked.table.named(asked.caller, spec, asked.only)
    location = f"/api/kernels/{kernel.id}"
    return JSONResponse(asked.table.model(kernel), 201, headers={"Location": location})


async def kernel(request: Request) -> Response:
    """Describe one kernel."""
    asked = _Request(request)
    return JSONResponse(await asked.current(await asked.kernel()))


async def leave(request: Request) -> Response:
    """Let a front end detach from a kernel, which stays unchanged."""
    await _Request(request).kernel()
    return Response(status_code=204)


async def interrupt(request: Request) -> Response:
    """Interrupt a kernel."""
    asked = _Request(request)
    found = await asked.kernel()
    await asked.call(found, SessionKernel.interrupt)
    return Response(status_code=204)


async def restart(request: Request) -> Response:
    """Replace the process of a kernel: its variables are lost, also for the agent."""
    asked = _Request(request)
    wanted = request.path_params["kernel"]
    await asked.table.wake(
        asked.caller, lambda row: kernel_table.kernel_id(row.id, defaults.MAIN) == wanted, asked.only
    )
    found = await asked.kernel()
    await asked.call(found, SessionKernel.restart)
    asked.table.forget_looks(found.row.id)
    return JSONResponse(await asked.current(found))


async def notebooks(request: Request) -> Response:
    """List the notebooks that front ends have open at kernels of running sessions."""
    asked = _Request(request)
    found = {each.id: each for each in await asked.kernels()}
    return JSONResponse(
        [each.model(asked.table.model(found[each.kernel])) for each in asked.notebooks.of(found)]
    )


async def open_notebook(request: Request) -> Response:
    """Join a notebook to a kernel, by the kernel's id or the name of a spec."""
    asked, body = _Request(request), await _json_body(request)
    kernel = await _wanted_kernel(asked, body)
    if kernel is None:
        kernel = await asked.table.named(asked.caller, None, asked.only)
    made = asked.notebooks.open(body, kernel.id)
    location = f"/api/sessions/{made.id}"
    return JSONResponse(made.model(asked.table.model(kernel)), 201, headers={"Location": location})


async def notebook(request: Request) -> Response:
    """Describe an open notebook."""
    asked = _Request(request)
    found, kernel = await _notebook(asked)
    return JSONResponse(found.model(await asked.current(kernel)))


async def change_notebook(request: Request) -> Response:
    """Rename an open notebook, or join it to a different kernel."""
    asked, body = _Request(request), await _json_body(request)
    found, kernel = await _notebook(asked)
    kernel = await _wanted_kernel(asked, body) or kernel
    return JSONResponse(asked.notebooks.change(found, body, kernel.id).model(asked.table.model(kernel)))


async def close_notebook(request: Request) -> Response:
    """Forget an open notebook; its kernel stays unchanged."""
    asked = _Request(request)
    asked.notebooks.close((await _notebook(asked))[0])
    return Response(status_code=204)


async def _notebook(asked: _Request) -> tuple[NotebookSession, GatewayKernel]:
    found = asked.notebooks.find(asked.connection.path_params["notebook"])
    return found, await asked.table.find(asked.caller, found.kernel, asked.only)


async def _wanted_kernel(asked: _Request, body: dict[str, Any]) -> GatewayKernel | None:
    """Return the kernel that a request names, if it does; by the name of its spec, that wakes its session."""
    wanted = body.get("kernel")
    if wanted is not None and not isinstance(wanted, dict):
        raise InvalidArgument("cannot read the request: kernel is not an object")
    id_, spec = (_text(wanted or {}, name) for name in ("id", "name"))
    if id_:
        return await asked.table.find(asked.caller, id_, asked.only)
    if not spec:
        return None
    await asked.table.wake(asked.caller, lambda row: kernel_table.leads_to(row, spec), asked.only)
    return await asked.table.named(asked.caller, spec, asked.only)


async def channels(websocket: WebSocket) -> None:
    """Join a front end to a kernel until it leaves."""
    try:
        asked = _Request(websocket)
        found = await asked.kernel()
        with counted(asked.table, found.id):
            socket = FrontEndSocket(websocket, asked.caller, found, asked.table, websocket.app.state.links)
            await socket.run()
    except HoldfastError as error:
        await websocket.send_denial_response(error_answer(error))


async def _json_body(request: Request) -> dict[str, Any]:
    data = await request.body()
    try:
        found = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument("cannot read the request: its body is not a JSON object")
    return found


def _text(body: dict[str, Any], name: str) -> str | None:
    found = body.get(name)
    if found is not None and not isinstance(found, str):
        raise InvalidArgument(f"cannot read the request: {name} is not a text")
    return found


def routes() -> list[BaseRoute]:
    """Return all routes of this wire."""
    one, open_ = "/api/kernels/{kernel}", "/api/sessions/{notebook}"
    return [
        Route("/api", version, methods=["GET"]),
        Route("/api/status", status, methods=["GET"]),
        Route("/api/kernelspecs", specs, methods=["GET"]),
        Route("/api/kernelspecs/{spec}", spec, methods=["GET"]),
        Route("/api/kernels", kernels, methods=["GET"]),
        Route("/api/kernels", start, methods=["POST"]),
        Route(one, kernel, methods=["GET"]),
        Route(one, leave, methods=["DELETE"]),
        Route(f"{one}/interrupt", interrupt, methods=["POST"]),
        Route(f"{one}/restart", restart, methods=["POST"]),
        WebSocketRoute(f"{one}/channels", channels),
        Route("/api/sessions", notebooks, methods=["GET"]),
        Route("/api/sessions", open_notebook, methods=["POST"]),
        Route(open_, notebook, methods=["GET"]),
        Route(open_, change_notebook, methods=["PATCH"]),
        Route(open_, close_notebook, methods=["DELETE"]),
    ]


_PATH = re.compile(r"(?:/jupyter(?:/(?P<session>[^/]{1,200}))?)?(?P<rest>/api(?:/.*)?)", re.DOTALL)
_SCHEMES = (b"token", b"bearer")
logger = logging.getLogger("holdfast.serve")


class JupyterDoor(TokenDoor):
    """The door of this wire, known by its paths; the server's token is in a header or the query."""

    single = frozenset({b"authorization"})
    acts_as = ACTOR
    audits_sockets = True
    missing = (
        401,
        "unauthorized",
        "send the server's token or an access key as `Authorization: token TOKEN`, or `?token=TOKEN`",
    )

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request of this wire, with the path that it has below the session."""
        found = _PATH.fullmatch(scope["path"]) if scope["type"] in ("http", "websocket") else None
        if found is None:
            return None
        session, rest = found["session"], found["rest"]
        below = {"path": rest, "raw_path": rest.encode("utf-8", "replace")}
        return {**scope, **below, ONLY: session and unquote(session)}

    def given(self, scope: Scope) -> list[bytes]:
        """Return the tokens of a request."""
        found = []
        for name, value in scope["headers"]:
            if name.lower() == b"authorization":
                scheme, _, token = value.partition(b" ")
                found.append(token.strip() if scheme.lower() in _SCHEMES else b"")
        query = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=100) if not found else []
        return found + [value.encode("utf-8", "replace") for name, value in query if name == "token"]

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not admitted."""
        status, code, why = refusal
        await admission.answer(scope, send, status, error_body(f"cannot answer: {why}", code))


def gateway(callers: Callers) -> Starlette:
    """Return the application behind that door."""
    app = Starlette(
        routes=routes(),
        exception_handlers={HoldfastError: _of_library, HTTPException: _of_http, Exception: _of_server},
    )
    app.router.redirect_slashes = False
    app.state.callers, app.state.table, app.state.links = callers, KernelTable(), SessionLinks()
    app.state.notebooks = NotebookSessions()
    return app


async def _of_library(_: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return error_answer(error)


async def _of_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = error_body(f"cannot answer: {error.detail}", "http")
    return JSONResponse(told, error.status_code, headers=dict(error.headers or {}))


async def _of_server(_: Request, error: Exception) -> Response:
    logger.error("request %s failed", request_id(), exc_info=error)
    message = f"cannot answer: the server failed; its log has request {request_id()}"
    return JSONResponse(error_body(message, "internal_error"), 500)
