"""Paths of tasks: commands outside the shell, each on a terminal of its own."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.task_info import TaskInfo
from holdfast.runtime.serve.answers import ERRORS, streamed
from holdfast.runtime.serve.callers import ApiCaller, caller
from holdfast.runtime.serve.calls.served_commands import task_call
from holdfast.runtime.serve.event_streams import LastEvent, answered, place
from holdfast.runtime.serve.models.base_models import Id, Offset, PatienceQuery, Ref
from holdfast.runtime.serve.models.command_models import (
    ExecAnswer,
    SignalRequest,
    SizeRequest,
    TaskAnswer,
    TaskQuery,
    TaskRequest,
    TypedRequest,
)

router = APIRouter(prefix="/v1/sessions/{session}/tasks", tags=["tasks"], responses=ERRORS)
From = Annotated[ApiCaller, Depends(caller)]


@router.get("")
async def list_tasks(who: From, session: Ref) -> list[TaskAnswer]:
    """List the tasks, the oldest first; of those that ended, the last 200."""
    return [_task(each) for each in await who.in_session(session, lambda found: found.tasks())]


@router.post("", status_code=201)
async def start(who: From, session: Ref, body: TaskRequest) -> TaskAnswer:
    """Start a command outside the shell, with the shell's directory and variables."""
    how = body.model_dump(exclude={"command"})
    return _task(await who.in_session(session, lambda found: found.detach(body.command, **how).info()))


@router.get("/{task}")
async def get_task(who: From, session: Ref, task: Id) -> TaskAnswer:
    """Return a task, by its id or name."""
    return _task(await who.in_session(session, lambda found: found.task(task).info()))


@router.get("/{task}/output", response_model=ExecAnswer, responses=streamed(ExecAnswer))
async def follow(
    who: From,
    session: Ref,
    task: Id,
    start: Offset | None = None,
    patience: PatienceQuery = None,
    wait: bool = False,
    raw: bool = False,
    last: LastEvent = None,
) -> Any:
    """Follow a task from an offset of its output: to its end, or until it waits. Streams as `exec` does.

    With `raw` the ends of lines are those of its terminal, which has a carriage return before each newline.
    """
    asked = TaskQuery(start=place(last, start), wait=wait, raw=raw)
    return await answered(who, session, patience, task_call(task, asked))


@router.post("/{task}/input", status_code=204)
async def type_text(who: From, session: Ref, task: Id, body: TypedRequest) -> Response:
    """Type text into the terminal of a task."""
    text = body.text
    if body.keys or text is None:
        raise InvalidArgument("cannot type: a task takes `text`, and no keys", hint='"\\u0003" is Ctrl-C')
    # What runs there may not read.
    await who.patiently(session, None, lambda found, patience: found.task(task).send(text, patience=patience))
    return Response(status_code=204)


@router.post("/{task}/size", status_code=204)
async def resize(who: From, session: Ref, task: Id, body: SizeRequest) -> Response:
    """Change the size of the terminal of a task."""
    await who.in_session(session, lambda found: found.task(task).resize(body.rows, body.cols))
    return Response(status_code=204)


@router.post("/{task}/signal", status_code=204)
async def signal(who: From, session: Ref, task: Id, body: SignalRequest) -> Response:
    """Send a signal to all processes in the terminal of a task."""
    await who.in_session(session, lambda found: found.task(task).signal(body.signal))
    return Response(status_code=204)


def _task(found: TaskInfo) -> TaskAnswer:
    return TaskAnswer.model_validate(found.as_dict())
