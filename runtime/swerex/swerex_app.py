"""The application of this wire: who is let in, its paths, each below its session, and errors as answers."""

from __future__ import annotations

import json
import logging
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from holdfast.base.request_id import request_id
from holdfast.errors import HoldfastError, SessionNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Refusal, Scope, Send
from holdfast.runtime.serve.callers import ApiCaller, Callers, chosen_actor
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.serve.request_gate import TokenDoor
from holdfast.runtime.store import lifetime
from holdfast.runtime.swerex import program_commands, runtime_bodies, runtime_files, runtime_shells
from holdfast.runtime.swerex.expected_output import UnreadOutput
from holdfast.runtime.swerex.runtime_bodies import (
    Action,
    ClosedShell,
    FileToRead,
    FileToWrite,
    NewShell,
    Observation,
    PlainCommand,
    ShellCommand,
    ShellInterrupt,
)
from holdfast.runtime.swerex.runtime_shells import CommandAction, ForcedInterrupt


class AsciiAnswer(JSONResponse):
    """JSON in ASCII, in which halves of characters, as names of files and texts may have, can be sent."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, separators=(",", ":")).encode()


ACTOR = "agent:swerex"
REQUEST_ID = "X-Request-ID"
"""The header that is the same when a client sends a request once more."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RuntimeCaller(ApiCaller):
    """The caller of one request."""

    def __init__(self, request: Request, callers: Callers, unread: UnreadOutput) -> None:
        super().__init__(request, callers, chosen_actor(request, ACTOR))
        self.unread = unread

    @property
    def key(self) -> str | None:
        """The key under which a command of this request runs once; None if the client sends no id."""
        given = self.request.headers.get(REQUEST_ID, "")
        return f"swerex-{given}" if _ID.fullmatch(given) else None


def runtime_caller(request: Request) -> RuntimeCaller:
    """Return the caller of a request, for the functions of paths."""
    state = request.app.state
    return RuntimeCaller(request, state.callers, state.unread)


router = APIRouter(prefix="/swerex/{session}", default_response_class=AsciiAnswer)
From = Annotated[RuntimeCaller, Depends(runtime_caller)]
Answer = dict[str, Any]


@router.get("/is_alive")
async def is_alive(who: From, session: Ref) -> Answer:
    """Report whether the session runs; asks the store only, since clients wait 150 ms."""

    def why_not() -> str:
        try:
            found = who.session(session)
            state = "running" if lifetime.asleep(found.row) else found.state  # its next use wakes it
        except SessionNotFound as error:
            return str(error)
        hint = f": `holdfast resume {session}`" if state == "suspended" else ""
        return "" if state == "running" else f"cannot reach session {session}: it is {state}{hint}"

    message = await who.all.brief.run(why_not)
    return {"is_alive": not message, "message": message}


@router.post("/create_session")
async def create_session(who: From, session: Ref, body: NewShell) -> Answer:
    """Open a shell."""

    def work(found: Session, patience: Patience) -> str:
        return runtime_shells.open_shell(found, body, patience)

    output = await who.patiently(session, body.startup_timeout, work)
    return {"output": output, "session_type": "bash"}


@router.post("/run_in_session")
async def run_in_session(who: From, session: Ref, body: Action) -> Answer:
    """Run a command in a shell, type a line for the program there, or interrupt it."""
    asked, key = body, who.key

    def work(found: Session, patience: Patience) -> Observation:
        if isinstance(asked, ShellInterrupt):
            return ForcedInterrupt(found, asked, patience, who.unread).run()
        return CommandAction(found, asked, patience, key, who.unread).run()

    seconds = body.timeout if isinstance(body, ShellCommand) else None
    return (await who.patiently(session, seconds, work)).as_dict()


@router.post("/close_session")
async def close_session(who: From, session: Ref, body: ClosedShell) -> Answer:
    """Close a shell, and end what runs in it."""
    await who.in_session(session, lambda found: runtime_shells.close_shell(found, body.session))
    return {"session_type": "bash"}


@router.post("/execute")
async def execute(who: From, session: Ref, body: PlainCommand) -> Answer:
    """Run a program beside the shells, to its end."""

    def work(found: Session, patience: Patience) -> Answer:
        return program_commands.execute(found, body, patience, lambda: who.all.stopping)

    return await who.patiently(session, None, work)


@router.post("/read_file")
async def read_file(who: From, session: Ref, body: FileToRead) -> Answer:
    """Return the text of a file."""
    return {"content": await who.in_session(session, lambda found: runtime_files.read_text(found, body))}


@router.post("/write_file")
async def write_file(who: From, session: Ref, body: FileToWrite) -> Answer:
    """Write a text file."""
    await who.in_session(session, lambda found: runtime_files.write_text(found, body))
    return {}


@router.post("/upload")
async def upload(who: From, session: Ref) -> Answer:
    """Write a file, or unpack an archive into a folder."""
    form = await runtime_files.form_of(who.request)
    try:
        sent = runtime_files.upload_in(form)
        await who.waits(lambda: runtime_files.store_upload(who.session(session), sent))
    finally:
        await form.close()
    return {}


@router.post("/close")
async def close(who: From, session: Ref) -> Answer:
    """Close the shells, and leave the session."""
    await who.in_session(session, runtime_shells.close_shells)
    return {}


KEY = b"x-api-key"
_PATH = re.compile(r"/swerex(/|$)")
logger = logging.getLogger("holdfast.serve")


class RuntimeDoor(TokenDoor):
    """The door of this wire, known by its paths; its clients send the server's token as a key."""

    streamed = frozenset({("POST", "/upload")})
    single = frozenset({KEY})
    missing = 401, "unauthorized", "send the server's token as auth_token of the runtime (X-API-Key)"

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request of this wire."""
        return scope if scope["type"] == "http" and _PATH.match(scope["path"]) else None

    def given(self, scope: Scope) -> list[bytes]:
        """Return the keys of a request."""
        return [value for name, value in scope["headers"] if name.lower() == KEY]

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not let in."""
        status, _, why = refusal
        await admission.answer(scope, send, status, {"detail": f"cannot answer: {why}"})


def wire(callers: Callers) -> FastAPI:
    """Return the application behind that door."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.callers, app.state.unread = callers, UnreadOutput()
    app.router.routes.extend(router.routes)  # included, each would be prepared once more
    app.add_exception_handler(HoldfastError, _of_library)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_server)
    return app


async def _of_library(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HoldfastError)
    return AsciiAnswer(runtime_bodies.error_body_of(error), runtime_bodies.STATUS)


async def _of_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"][1:])) or "the body"
    message = f"cannot read the request: {where}: {first['msg']}"
    return AsciiAnswer(runtime_bodies.error_body("builtins.ValueError", message), runtime_bodies.STATUS)


async def _of_http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return AsciiAnswer({"detail": f"cannot answer: {error.detail}"}, error.status_code, headers=headers)


async def _of_server(_: Request, error: Exception) -> JSONResponse:
    logger.error("request %s failed", request_id(), exc_info=error)
    message = f"cannot answer: the server failed; its log has request {request_id()}"
    return AsciiAnswer({"detail": message}, 500)
