"""Paths of shells: run, follow, answer, interrupt, and the shells themselves."""

from __future__ import annotations

import io
from dataclasses import asdict
from typing import IO, Annotated, Any

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from holdfast.base import printable_json
from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo
from holdfast.runtime.history.recording.recording import Recording, part_of
from holdfast.runtime.scrubbing import rules_file
from holdfast.runtime.serve.answer_forms import ERRORS, ITEM, streamed
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.calls.followed_calls import answer_call, exec_answer, exec_call, join_call
from holdfast.runtime.serve.event_streams import LastEvent, answered, place
from holdfast.runtime.serve.models.answer_models import (
    CastEventAnswer,
    ExecAnswer,
    LeaseAnswer,
    RecordingAnswer,
    ScreenAnswer,
    ShellAnswer,
    SyntaxAnswer,
)
from holdfast.runtime.serve.models.base_models import (
    TEXT,
    Id,
    Key,
    Offset,
    PartQuery,
    PartRef,
    PatienceQuery,
    Ref,
)
from holdfast.runtime.serve.models.command_models import (
    AnswerRequest,
    ExecRequest,
    InterruptRequest,
    JoinQuery,
    SyntaxRequest,
    TypedRequest,
)
from holdfast.runtime.serve.models.session_models import LeaseRequest, ShellRequest
from holdfast.runtime.serve.routes.api_router import api_router
from holdfast.runtime.serve.streamed_bodies import written_body

router = api_router(prefix="/v1/sessions/{session}", tags=["shells"], responses=ERRORS)


@router.post("/exec", response_model=ExecAnswer, responses=streamed(ExecAnswer))
async def exec_(who: From, session: Ref, body: ExecRequest, key: Key = None) -> Any:
    """Run a command in a shell, until it ends or waits for input. One that fails is a result.

    With `Accept: application/x-ndjson` or `text/event-stream` its output is sent as it comes. A client that
    leaves does not end it: `commands/{id}` follows it further.
    """
    return await answered(who, session, body.patience, exec_call(body, key))


@router.get("/commands/{command_id}", response_model=ExecAnswer, responses=streamed(ExecAnswer))
async def join(
    who: From,
    session: Ref,
    command_id: Id,
    start: Offset | None = None,
    patience: PatienceQuery = None,
    shell: PartQuery = defaults.MAIN,
    wait: bool = False,
    last: LastEvent = None,
) -> Any:
    """Follow a running command, from an offset of the output: to its end, or until it waits."""
    asked = JoinQuery(start=place(last, start), wait=wait, shell=shell)
    return await answered(who, session, patience, join_call(command_id, asked))


@router.post("/answer", response_model=ExecAnswer, responses=streamed(ExecAnswer))
async def answer(who: From, session: Ref, body: AnswerRequest) -> Any:
    """Type text for the command that runs, and follow it from there. Streams as `exec` does."""
    return await answered(who, session, body.patience, answer_call(body))


@router.post("/interrupt")
async def interrupt(who: From, session: Ref, body: InterruptRequest) -> ExecAnswer | None:
    """Interrupt the foreground of a shell, as Ctrl-C does; null if it was not a command of `exec`."""

    def work(found: Session) -> ExecAnswer | None:
        result = found.interrupt(command_id=body.command_id, patience=body.patience, shell=body.shell)
        return None if result is None else ExecAnswer.model_validate(exec_answer(result))

    return await who.in_session(session, work)


@router.post("/check-syntax")
async def check_syntax(who: From, session: Ref, body: SyntaxRequest) -> SyntaxAnswer:
    """Check whether bash could parse a text, without running any of it."""
    found = await who.in_session(session, lambda each: each.check_syntax(body.text, shell=body.shell))
    return SyntaxAnswer.model_validate(found.as_dict())


@router.get("/shells")
async def list_shells(who: From, session: Ref) -> list[ShellAnswer]:
    """List the shells, the main one first."""
    return [_shell(each) for each in await who.in_session(session, lambda found: found.shells.list())]


@router.post("/shells", status_code=201)
async def open_shell(who: From, session: Ref, body: ShellRequest) -> ShellAnswer:
    """Open a shell, or return the open shell with that name."""
    return _shell(
        await who.in_session(
            session, lambda found: found.shells.open(body.name, rows=body.rows, cols=body.cols)
        )
    )


@router.get("/shells/{shell}")
async def get_shell(who: From, session: Ref, shell: PartRef) -> ShellAnswer:
    """Return a shell."""
    return _shell(await who.in_session(session, lambda found: found.shell(shell)))


@router.delete("/shells/{shell}", status_code=204)
async def close_shell(
    who: From,
    session: Ref,
    shell: PartRef,
    force: bool = False,
) -> Response:
    """End a shell and the processes on its terminal; with `force` also if a command runs in it."""
    await who.in_session(session, lambda found: found.shells.close(shell, force=force))
    return Response(status_code=204)


@router.get("/shells/{shell}/screen")
async def screen(who: From, session: Ref, shell: PartRef) -> ScreenAnswer:
    """Return the screen of a shell's terminal."""
    found = await who.in_session(session, lambda each: each.terminal_of(shell).screen())
    return ScreenAnswer.model_validate(as_table(found))


@router.post("/shells/{shell}/input", status_code=204)
async def type_text(who: From, session: Ref, shell: PartRef, body: TypedRequest) -> Response:
    """Type text into the terminal of a shell, or press keys."""

    def work(found: Session) -> None:
        terminal = found.terminal_of(shell)
        if body.text is not None:
            terminal.send(body.text)
        if body.keys:
            terminal.send_keys(*body.keys)

    _check_typed(body)
    await who.in_session(session, work)
    return Response(status_code=204)


@router.get("/shells/{shell}/lease")
async def get_lease(who: From, session: Ref, shell: PartRef) -> LeaseAnswer:
    """Return the shell's holder, and the attached terminals."""
    return _lease(await who.in_session(session, lambda found: found.terminal_of(shell).lease()))


@router.post("/shells/{shell}/lease")
async def change_lease(who: From, session: Ref, shell: PartRef, body: LeaseRequest) -> LeaseAnswer:
    """Hold a shell for a time, return it, or hand it over."""

    def work(found: Session) -> Lease:
        terminal = found.terminal_of(shell)
        if body.action == "take":
            return terminal.take(body.seconds, force=body.force)
        if body.action == "return":
            return terminal.give_back()
        if body.to is None:
            raise InvalidArgument("cannot give the shell: `to` is missing", hint="for example `person:alice`")
        return terminal.give(body.to, body.seconds)

    return _lease(await who.in_session(session, work))


def _check_typed(body: TypedRequest) -> None:
    if body.text is None and not body.keys:
        raise InvalidArgument("cannot type: there is neither text nor a key", hint='"\\n" is Enter')


def _shell(found: ShellInfo) -> ShellAnswer:
    return ShellAnswer.model_validate(found.model_dump())


def _lease(found: Lease) -> LeaseAnswer:
    return LeaseAnswer.model_validate(found.model_dump())


recordings = api_router(
    prefix="/v1/sessions/{session}/shells/{shell}/recording", tags=["recordings"], responses=ERRORS
)
Place = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=TEXT,
        description="An offset of the output, a time, `10m` for ten minutes ago, or a snapshot.",
    ),
]
EVENTS = "application/x-ndjson"
CAST = "application/x-asciicast"
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events, one object a line.",
        "content": {EVENTS: {ITEM: CastEventAnswer.model_json_schema()}},
    }
}
_CAST: dict[int | str, dict[str, Any]] = {
    200: {"description": "A file in asciicast v2.", "content": {CAST: {"schema": {"type": "string"}}}}
}


@recordings.get("")
async def recording(
    who: From, session: Ref, shell: PartRef, start: Place = None, end: Place = None
) -> RecordingAnswer:
    """Return the kept part of a terminal's output between two places, by default all of it."""
    found = await who.in_session(session, lambda each: _recording(each, shell, start, end))
    return RecordingAnswer.model_validate(as_table(part_of(found)))


@recordings.get("/events", response_class=StreamingResponse, responses=_EVENTS)
async def events(
    who: From, session: Ref, shell: PartRef, start: Place = None, end: Place = None
) -> StreamingResponse:
    """Send a terminal's events, first the initial screen. Output is as programs wrote it."""
    found = await who.in_session(session, lambda each: _recording(each, shell, start, end))

    def write(stream: IO[bytes]) -> None:
        for event in found.events():
            stream.write(f"{printable_json.dumps(asdict(event))}\n".encode())

    return written_body(who, EVENTS, write)


@recordings.get("/cast", response_class=StreamingResponse, responses=_CAST)
async def cast(
    who: From,
    session: Ref,
    shell: PartRef,
    start: Place = None,
    end: Place = None,
    raw: bool = False,
) -> StreamingResponse:
    """Send it as a file for asciinema, safe for any terminal and without secrets that the rules find.

    `raw` leaves it as it is.
    """
    found = await who.in_session(session, lambda each: _recording(each, shell, start, end))

    def write(stream: IO[bytes]) -> None:
        matcher = None if raw else rules_file.read(who.all.home).matcher()
        text = io.TextIOWrapper(stream, "utf-8", newline="\n")
        found.write(text, raw=raw, matcher=matcher)
        text.flush()
        text.detach()

    return written_body(who, CAST, write)


def _recording(found: Session, shell: str, start: str | None, end: str | None) -> Recording:
    return found.terminal_of(shell).recording(start, end)
