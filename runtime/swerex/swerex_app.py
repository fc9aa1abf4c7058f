"""The application of this wire: its admission, its paths, each below its session, and errors as answers.

Programs outside the shells are run to their end as `subprocess.run` does. Files are texts as
`Path.read_text` and `Path.write_text` take them, or uploads: a form with a file or an archive, and the path
that it is for. The path comes behind the content, so the content is kept in a temporary file until then.
"""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import IO, Annotated, Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse

from holdfast.base.request_id import request_id
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, SessionNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, unzipped
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramResult
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Refusal, Scope, Send
from holdfast.runtime.http_doors.request_limits import CLOSE
from holdfast.runtime.serve.callers import ApiCaller, Callers, chosen_actor
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.serve.request_gate import TokenDoor
from holdfast.runtime.serve.routes.api_router import wire_router
from holdfast.runtime.store import lifetime
from holdfast.runtime.swerex import runtime_bodies, runtime_shells
from holdfast.runtime.swerex.expected_output import UnreadOutput
from holdfast.runtime.swerex.runtime_bodies import (
    Action,
    ClosedShell,
    CommandFailed,
    FileToRead,
    FileToWrite,
    NewShell,
    Observation,
    PlainCommand,
    ProgramMissing,
    RuntimeFailure,
    ShellCommand,
    ShellInterrupt,
    TimeIsOver,
)
from holdfast.runtime.swerex.runtime_shells import CommandAction, ForcedInterrupt

SHORTEST = 0.001
"""Seconds of a time limit of none."""
MERGED = 'exec "$@" 2>&1'


def words(asked: PlainCommand) -> list[str]:
    """Return the program and its arguments.  Pure."""
    given = [asked.command] if isinstance(asked.command, str) else list(asked.command)
    argv = ["/bin/sh", "-c", *given] if asked.shell else given
    return ["/bin/sh", "-c", MERGED, "sh", *argv] if asked.merge_output_streams else argv


def run_plainly(
    found: Session, asked: PlainCommand, patience: Patience, stopping: Callable[[], bool]
) -> dict[str, str | int]:
    """Run it, and return its output and its exit code, which is negative if a signal ended it.

    A client that leaves ends it; the end of the server does not.

    Raises:
        TimeIsOver: it took too long, and was ended with all it had started.
        CommandFailed: it failed, and its caller wanted that to be an error.
        ProgramMissing: there is no such program or folder.
        RuntimeFailure: its output exceeds the limit of an answer.
        SessionError, GuestError: it cannot be run.
    """
    try:
        program = found.programs.start(words(asked), env=asked.env, cwd=asked.cwd)
    except InvalidArgument as error:
        raise ProgramMissing(str(error), hint=error.hint) from error
    timeout = None if asked.timeout is None else max(SHORTEST, asked.timeout)
    result = program.wait(timeout=timeout, patience=patience)
    if result.timed_out:
        raise TimeIsOver(
            f"cannot wait for {_command(asked)}: timeout after {asked.timeout:g} s; it was ended"
        )
    if result.info.state == "running":
        if not stopping():
            program.signal("TERM")
        raise TimeIsOver(f"cannot wait for {_command(asked)}: the server ends; the command continues")
    if result.dropped or result.lost:
        raise RuntimeFailure(
            f"cannot return the output of {_command(asked)}: it is larger than 16 MiB",
            hint="redirect it to a file",
        )
    answer: dict[str, str | int] = {
        "stdout": result.stdout.decode("utf-8", "backslashreplace"),
        "stderr": result.stderr.decode("utf-8", "backslashreplace"),
        "exit_code": exit_code(result),
    }
    if asked.check and answer["exit_code"] != 0:
        message = (
            f"Command {asked.command!r} failed with exit code {answer['exit_code']}. "
            f"Stdout:\n{answer['stdout']!r}\nStderr:\n{answer['stderr']!r}"
        )
        raise CommandFailed(f"{asked.error_msg}: {message}" if asked.error_msg else message)
    return answer


def exit_code(result: ProgramResult) -> int:
    """Return the exit code of a program that has ended, as `subprocess` has it.  Pure."""
    return -(result.signal or 0) if result.exit_code is None else result.exit_code


def _command(asked: PlainCommand) -> str:
    return f"the command {str(asked.command)[:1000]!r}"


MOST_TEXT = 64 << 20
"""The most bytes of a file in an answer."""


def read_text(found: Session, asked: FileToRead) -> str:
    """Return the text of a file.

    Raises:
        InvalidArgument: it is too large, or not in that encoding.
        SessionFileError: it cannot be read.
    """
    data = found.files.read(asked.path, 0, MOST_TEXT + 1)
    if len(data) > MOST_TEXT:
        raise InvalidArgument(
            f"cannot read {asked.path!r} in one call: it has more than {MOST_TEXT >> 20} MiB",
            hint="read parts of it",
        )
    return decoded(data, asked.encoding, asked.errors)


def decoded(data: bytes, encoding: str | None, errors: str | None) -> str:
    """Return the text of a file's content, UTF-8 unless another encoding is named.  Pure.

    Raises:
        InvalidArgument: there is no such encoding, or it is another one.
    """
    try:
        return io.TextIOWrapper(io.BytesIO(data), encoding or "utf-8", errors or "strict").read()
    except (LookupError, ValueError, UnicodeError) as error:
        raise InvalidArgument(f"cannot decode the file: {plain(str(error), 200)}") from None


def write_text(found: Session, asked: FileToWrite) -> None:
    """Write a file, and make the folders above it.

    Raises:
        InvalidArgument: it has halves of characters.
        SessionFileError: it cannot be written.
    """
    try:  # what `read_file` made of other bytes is written as they were
        content = asked.content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"cannot write {asked.path!r}: its content is not valid text ({error})"
        ) from None
    make_above(found.files, asked.path)
    found.files.write(asked.path, content)


def make_above(files: SessionFiles, path: str) -> None:
    """Make the folders above a path."""
    above = path.rstrip("/").rpartition("/")[0]
    if above not in ("", "~"):
        files.make_folder(above, parents=True)


MOST_UPLOAD = 4 << 30
"""Bytes of a body."""
PIECE = 1 << 20
LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class UploadedContent:
    """A file for a path of the session; `packed`: an archive for a folder there."""

    content: IO[bytes]
    path: str
    packed: bool


async def form_of(request: Request) -> FormData:
    """Read the form of a request, whose files the caller closes.

    Raises:
        InvalidArgument: it is not a form.
        HTTPException: it is too large.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise InvalidArgument("cannot read the upload: it is not a form (multipart/form-data)")
    try:
        return await MultiPartParser(
            request.headers, _limited(request.stream()), max_files=1, max_fields=10
        ).parse()
    except (MultiPartException, KeyError, ValueError) as error:
        why = (
            error.message
            if isinstance(error, MultiPartException)
            else "its boundary is missing, or it is cut short"
        )
        raise InvalidArgument(f"cannot read the upload: {why}") from None


def upload_in(form: FormData) -> UploadedContent:
    """Return the upload in a form.

    Raises:
        InvalidArgument: it lacks the file or its path.
    """
    file, path, packed = form.get("file"), form.get("target_path"), form.get("unzip", "false")
    if not isinstance(file, UploadFile):
        raise InvalidArgument("cannot read the upload: it does not contain a file")
    if not isinstance(path, str) or not path or len(path) > LONGEST_PATH or "\0" in path:
        raise InvalidArgument(f"cannot read the upload: target_path must have 1 to {LONGEST_PATH} characters")
    return UploadedContent(file.file, path, str(packed).lower() in ("true", "1", "yes", "on"))


def store_upload(found: Session, sent: UploadedContent) -> None:
    """Write the file, or unpack the archive, and make the folders above.

    Raises:
        InvalidArgument: the archive is refused.
        SessionFileError: something cannot be written.
    """
    sent.content.seek(0)
    if sent.packed:
        unzipped(found.files, sent.content, sent.path)
        return
    make_above(found.files, sent.path)
    found.files.write_parts(sent.path, iter(lambda: sent.content.read(PIECE), b""))


async def _limited(stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    size = 0
    async for part in stream:
        size += len(part)
        if size > MOST_UPLOAD:
            raise HTTPException(413, f"the body has more than {MOST_UPLOAD} bytes", CLOSE)
        yield part


class AsciiAnswer(JSONResponse):
    """ASCII-only JSON, so that lone surrogates in file names and texts survive."""

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


router = wire_router("swerex", prefix="/swerex/{session}", default_response_class=AsciiAnswer)
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
    """Close a shell, and end its programs."""
    await who.in_session(session, lambda found: runtime_shells.close_shell(found, body.session))
    return {"session_type": "bash"}


@router.post("/execute")
async def execute(who: From, session: Ref, body: PlainCommand) -> Answer:
    """Run a program independently of the shells, to its end."""

    def work(found: Session, patience: Patience) -> Answer:
        return run_plainly(found, body, patience, lambda: who.all.stopping)

    return await who.patiently(session, None, work)


@router.post("/read_file")
async def read_file(who: From, session: Ref, body: FileToRead) -> Answer:
    """Return the text of a file."""
    return {"content": await who.in_session(session, lambda found: read_text(found, body))}


@router.post("/write_file")
async def write_file(who: From, session: Ref, body: FileToWrite) -> Answer:
    """Write a text file."""
    await who.in_session(session, lambda found: write_text(found, body))
    return {}


@router.post("/upload")
async def upload(who: From, session: Ref) -> Answer:
    """Write a file, or unpack an archive into a folder."""
    form = await form_of(who.request)
    try:
        sent = upload_in(form)
        await who.waits(lambda: store_upload(who.session(session), sent))
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
    acts_as = ACTOR
    missing = (
        401,
        "unauthorized",
        "send the server's token or an access key as auth_token of the runtime (X-API-Key)",
    )

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request of this wire."""
        return scope if scope["type"] == "http" and _PATH.match(scope["path"]) else None

    def given(self, scope: Scope) -> list[bytes]:
        """Return the keys of a request."""
        return [value for name, value in scope["headers"] if name.lower() == KEY]

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not admitted."""
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
