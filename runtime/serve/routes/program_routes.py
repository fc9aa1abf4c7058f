"""Paths of programs: started directly, with pipes instead of a terminal."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.program_result import ProgramInfo
from holdfast.runtime.serve.answer_forms import ERRORS, streamed
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.calls.followed_calls import program_call, run_call
from holdfast.runtime.serve.event_streams import answered
from holdfast.runtime.serve.models.answer_models import InputAnswer, ProgramAnswer, ProgramResultAnswer
from holdfast.runtime.serve.models.base_models import Id, Offset, PatienceQuery, Ref
from holdfast.runtime.serve.models.command_models import (
    ProgramQuery,
    ProgramRequest,
    RunRequest,
    SignalRequest,
)
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/sessions/{session}", tags=["programs"], responses=ERRORS)


@router.post("/run", response_model=ProgramResultAnswer, responses=streamed(ProgramResultAnswer))
async def run(who: From, session: Ref, body: RunRequest) -> Any:
    """Run a program and wait for its end: no shell, no terminal.

    If the client leaves, the program continues; `programs/{id}/output` follows it further.
    """
    return await answered(who, session, None, run_call(body))


@router.get("/programs")
async def list_programs(who: From, session: Ref) -> list[ProgramAnswer]:
    """List the programs that run, and the last that ended."""
    return [_program(each) for each in await who.in_session(session, lambda found: found.programs.list())]


@router.post("/programs", status_code=201)
async def start(who: From, session: Ref, body: ProgramRequest) -> ProgramAnswer:
    """Start a program and leave it running."""
    how = body.model_dump()
    return _program(await who.in_session(session, lambda found: found.programs.start(**how).info()))


@router.get("/programs/{program}")
async def get_program(who: From, session: Ref, program: Id) -> ProgramAnswer:
    """Return a program."""
    return _program(await who.in_session(session, lambda found: found.programs.get(program).info()))


@router.get(
    "/programs/{program}/output",
    response_model=ProgramResultAnswer,
    responses=streamed(ProgramResultAnswer),
)
async def follow(
    who: From,
    session: Ref,
    program: Id,
    stdout: Offset = 0,
    stderr: Offset = 0,
    patience: PatienceQuery = None,
) -> Any:
    """Follow a program from offsets of its streams, to its end."""
    asked = ProgramQuery(stdout=stdout, stderr=stderr)
    return await answered(who, session, patience, program_call(program, asked))


@router.post("/programs/{program}/input")
async def write(
    who: From,
    session: Ref,
    program: Id,
    close: bool = False,
) -> InputAnswer:
    """Send a program input, the bytes of the body; with `close` its input then ends."""
    data = await who.request.body()

    def work(found: Session, patience: Patience) -> InputAnswer:
        target = found.programs.get(program)
        if data:
            target.write(data, patience=patience)
        if close:
            target.close_input()
        return InputAnswer(accepted=target.info().accepted)

    return await who.patiently(session, None, work)  # the program may not read


@router.post("/programs/{program}/signal", status_code=204)
async def signal(who: From, session: Ref, program: Id, body: SignalRequest) -> Response:
    """Send a signal to a program and all that it started."""
    await who.in_session(session, lambda found: found.programs.get(program).signal(body.signal))
    return Response(status_code=204)


def _program(found: ProgramInfo) -> ProgramAnswer:
    return ProgramAnswer.model_validate(found.as_dict())
