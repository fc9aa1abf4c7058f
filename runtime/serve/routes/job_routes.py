"""Paths of jobs: commands outside the shell, each on a terminal of its own."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.serve.answer_forms import ERRORS, streamed
from holdfast.runtime.serve.callers import From
from holdfast.runtime.serve.calls.followed_calls import job_call
from holdfast.runtime.serve.event_streams import LastEvent, answered, place
from holdfast.runtime.serve.models.answer_models import ExecAnswer, JobAnswer
from holdfast.runtime.serve.models.base_models import Id, Offset, PatienceQuery, Ref
from holdfast.runtime.serve.models.command_models import (
    JobQuery,
    JobRequest,
    SignalRequest,
    SizeRequest,
    TypedRequest,
)
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/sessions/{session}/jobs", tags=["jobs"], responses=ERRORS)


@router.get("")
async def list_jobs(who: From, session: Ref) -> list[JobAnswer]:
    """List the jobs, the oldest first; of ended ones, the last 200."""
    return [_job(each) for each in await who.in_session(session, lambda found: found.jobs())]


@router.post("", status_code=201)
async def start(who: From, session: Ref, body: JobRequest) -> JobAnswer:
    """Start a command outside the shell, with the shell's directory and variables."""
    how = body.model_dump(exclude={"command"})
    return _job(await who.in_session(session, lambda found: found.detach(body.command, **how).info()))


@router.get("/{job}")
async def get_job(who: From, session: Ref, job: Id) -> JobAnswer:
    """Return a job, by its id or name."""
    return _job(await who.in_session(session, lambda found: found.job(job).info()))


@router.get("/{job}/output", response_model=ExecAnswer, responses=streamed(ExecAnswer))
async def follow(
    who: From,
    session: Ref,
    job: Id,
    start: Offset | None = None,
    patience: PatienceQuery = None,
    wait: bool = False,
    raw: bool = False,
    last: LastEvent = None,
) -> Any:
    """Follow a job from an offset of its output: to its end, or until it waits. Streams as `exec` does.

    With `raw` lines end as on its terminal, with a carriage return before each newline.
    """
    asked = JobQuery(start=place(last, start), wait=wait, raw=raw)
    return await answered(who, session, patience, job_call(job, asked))


@router.post("/{job}/input", status_code=204)
async def type_text(who: From, session: Ref, job: Id, body: TypedRequest) -> Response:
    """Type text into the terminal of a job."""
    text = body.text
    if body.keys or text is None:
        raise InvalidArgument("cannot type: a job takes `text`, and no keys", hint='"\\u0003" is Ctrl-C')
    # What runs there may not read.
    await who.patiently(session, None, lambda found, patience: found.job(job).send(text, patience=patience))
    return Response(status_code=204)


@router.post("/{job}/size", status_code=204)
async def resize(who: From, session: Ref, job: Id, body: SizeRequest) -> Response:
    """Change the size of the terminal of a job."""
    await who.in_session(session, lambda found: found.job(job).resize(body.rows, body.cols))
    return Response(status_code=204)


@router.post("/{job}/signal", status_code=204)
async def signal(who: From, session: Ref, job: Id, body: SignalRequest) -> Response:
    """Send a signal to all processes in the terminal of a job."""
    await who.in_session(session, lambda found: found.job(job).signal(body.signal))
    return Response(status_code=204)


def _job(found: JobInfo) -> JobAnswer:
    return JobAnswer.model_validate(found.as_dict())
