"""Paths of processes: `process.Process/*`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import connect_frames, rpc_streams
from holdfast.runtime.e2b.process import process_input, sandbox_processes
from holdfast.runtime.e2b.process.process_bodies import (
    ProcessRef,
    SendInputBody,
    SendSignalBody,
    StartBody,
    UpdateBody,
)
from holdfast.runtime.e2b.process.process_calls import connect_call, start_call
from holdfast.runtime.e2b.process.process_input import InputTurns, input_turns
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller, sandbox_caller

router = APIRouter(prefix="/process.Process")
From = Annotated[SandboxCaller, Depends(sandbox_caller)]
Turns = Annotated[InputTurns, Depends(input_turns)]
Nothing = dict[str, Any]


@router.post("/List")
async def list_processes(who: From) -> Any:
    """List the processes that run."""
    found = await who.in_session(who.sandbox, sandbox_processes.all_of)
    return {"processes": [each.described() for each in found if each.running]}


@router.post("/Start")
async def start(who: From) -> Response:
    """Start a process, and send what it writes and how it ends."""
    asked = StartBody.read(await _message(who))
    seconds = rpc_streams.seconds_given(who)
    return await rpc_streams.streamed(who, start_call(asked, who.user, seconds), seconds)


@router.post("/Connect")
async def connect(who: From) -> Response:
    """Send all that a process has written and writes, and how it ends."""
    asked = ProcessRef.read(await _message(who))
    return await rpc_streams.streamed(who, connect_call(asked.process), rpc_streams.seconds_given(who))


@router.post("/Update")
async def update(who: From, body: UpdateBody) -> Nothing:
    """Change the size of the terminal of a process."""
    if body.pty is None or body.pty.size is None:
        raise InvalidArgument("cannot change the process: only the size of its terminal can be changed")
    size = body.pty.size

    def work(found: Session) -> None:
        sandbox_processes.running(found, body.process).resize(size)

    await who.in_session(who.sandbox, work)
    return {}


@router.post("/SendInput")
async def send_input(who: From, turns: Turns, body: SendInputBody) -> Nothing:
    """Give a process input."""
    left = asyncio.ensure_future(process_input.leaving(who))
    try:
        await process_input.give(who, turns, body.process, body.input, rpc_streams.seconds_given(who), left)
    finally:
        left.cancel()
    return {}


@router.post("/StreamInput")
async def stream_input(who: From, turns: Turns) -> Response:
    """Give a process input as it arrives."""
    await process_input.give_stream(who, turns, rpc_streams.seconds_given(who))
    return Response(connect_frames.message({}) + connect_frames.last(), media_type=connect_frames.MEDIA_TYPE)


@router.post("/CloseStdin")
async def close_input(who: From, body: ProcessRef) -> Nothing:
    """Let a process find the end of its input."""
    await who.in_session(
        who.sandbox, lambda found: sandbox_processes.running(found, body.process).close_input()
    )
    return {}


@router.post("/SendSignal")
async def send_signal(who: From, body: SendSignalBody) -> Nothing:
    """Send a signal to a process and to all that it started."""
    name = body.name()
    await who.in_session(
        who.sandbox, lambda found: sandbox_processes.running(found, body.process).signal(name)
    )
    return {}


async def _message(who: SandboxCaller) -> dict[str, Any]:
    """Return the one message of a request whose answer is a stream."""
    try:
        return connect_frames.whole(await who.request.body())
    except ClientDisconnect as error:
        raise HTTPException(400, "the client left before the request was whole") from error
