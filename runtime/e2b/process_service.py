"""The service of processes, `process.Process/*`: start, follow, give input, signal.

A client that leaves ends nothing. When its time is over, a process that it started is killed, as E2B does;
one that it connected to continues. A process can leave input unread for as long as it likes, so each piece
waits in a thread with the client's patience, one after the other for each process.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any
from weakref import WeakValueDictionary

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from holdfast.errors import GuestError, InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import connect_wire, sandbox_processes
from holdfast.runtime.e2b.connect_wire import DEADLINE, InputNotTaken, MessageReader, SandboxUnavailable
from holdfast.runtime.e2b.sandbox_caller import From, SandboxCaller
from holdfast.runtime.e2b.sandbox_lives import ACCOUNT, SandboxFacts
from holdfast.runtime.e2b.sandbox_processes import (
    InputBytes,
    ProcessChoice,
    ProcessRef,
    SandboxProcess,
    SendInputBody,
    SendSignalBody,
    StartBody,
    StreamInputBody,
    UpdateBody,
)
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.calls.followed_calls import OVERHEAD, Emit, ServedCall
from holdfast.runtime.serve.routes.api_router import wire_router

ROOT_HOME = "/root"
EARLY = 2.0
"""Seconds before the end of its time, at most a quarter of it, in which a client that leaves has not left by
choice: it has the same time, and its clock began before ours."""


def start_call(asked: StartBody, user: str | None, seconds: float | None) -> ServedCall:
    """Start a process and follow it; `seconds` is the time that the client gave."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        patience.begin()
        facts = SandboxFacts.of(found.row)
        env = {**(facts.env if facts is not None else {}), **asked.process.envs}
        who, cwd = acting(facts, user, asked.process.cwd)
        process = sandbox_processes.start(found, asked, env, who, cwd)
        if _followed(process, patience, emit):
            return {}
        if _late(patience, seconds):
            with contextlib.suppress(GuestError):  # it has just ended
                process.signal("KILL")
            return DEADLINE
        raise _left(process)

    return call


def acting(facts: SandboxFacts | None, user: str | None, cwd: str | None) -> tuple[str | None, str | None]:
    """Return the user and directory of a process; None for the session's own. Pure."""
    if facts is None or facts.home is None:
        return None if user in (None, "", ACCOUNT) else user, cwd or None
    name = user or ACCOUNT
    home = ROOT_HOME if name in ("root", "0") else facts.home
    if not cwd:
        place = facts.home
    elif cwd == "~" or cwd.startswith("~/"):
        place = home + cwd[1:]
    else:
        place = posixpath.join(home, cwd)
    # An image may list no account of this name: the number is root's everywhere.
    return "0" if name == "root" else name, place


def connect_call(choice: ProcessChoice) -> ServedCall:
    """Follow a process, running or ended, from its beginning."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        patience.begin()
        process = sandbox_processes.known(found, choice)
        if _followed(process, patience, emit):
            return {}
        if patience.ended:
            raise _left(process)
        return DEADLINE

    return call


def _followed(process: SandboxProcess, patience: Patience, emit: Emit | None) -> bool:
    """Report all output of a process; return whether it has ended."""
    if emit is None:
        return process.follow(patience, lambda _stream, _data: None) is not None
    emit(sandbox_processes.started_message(process.pid), OVERHEAD)
    end = process.follow(
        patience,
        lambda stream, data: emit(sandbox_processes.wrote_message(stream, data), len(data) + OVERHEAD),
    )
    if end is not None:
        emit(sandbox_processes.ended_message(end), OVERHEAD)
    return end is not None


def _late(patience: Patience, seconds: float | None) -> bool:
    if seconds is None:
        return False
    left = patience.left()
    return not patience.ended or (left is not None and left <= min(EARLY, seconds / 4))


def _left(process: SandboxProcess) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"cannot follow process {process.pid} further: the server stops, or its client has left",
        hint="connect to it again",
    )


class InputTurns:
    """Turns for the input of each process of each sandbox: simultaneous input would be mixed."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, sandbox: str, process: ProcessChoice) -> asyncio.Lock:
        """Return the lock for input of a process."""
        return self._locks.setdefault((sandbox, str(process)), asyncio.Lock())


async def input_turns(request: Request) -> InputTurns:
    """Return the turns of the application, for the functions of paths."""
    state = request.app.state
    if not hasattr(state, "input_turns"):
        state.input_turns = InputTurns()
    found: InputTurns = state.input_turns
    return found


async def give(
    who: SandboxCaller,
    turns: InputTurns,
    process: ProcessChoice,
    given: InputBytes,
    seconds: float | None,
    left: asyncio.Future[None],
) -> None:
    """Give a process one piece of input; `left` is done when the client has left.

    Raises:
        ProgramNotFound: it does not run.
        InputNotTaken: it does not read.
    """
    if process.tag is not None:
        process = await _by_pid(who, process)
    patience = who.all.patience(seconds)
    patience.begin()

    def work() -> None:
        found = who.session(who.sandbox)
        sandbox_processes.running(found, process).write(given.kind, given.data, patience)

    def end(_left: object) -> None:
        patience.end()

    left.add_done_callback(end)
    turn = turns.of(who.sandbox, process)
    try:
        if not await _taken(turn, patience, left):
            raise InputNotTaken(
                f"cannot give the process {process} this input: it has not read its earlier input"
            )
        try:
            await who.waits(work)
        finally:
            turn.release()
    finally:
        left.remove_done_callback(end)
        who.all.done(patience)


async def _taken(turn: asyncio.Lock, patience: Patience, left: asyncio.Future[None]) -> bool:
    """Wait for a turn while the client waits; return whether it has come."""
    taking = asyncio.ensure_future(turn.acquire())
    either: set[asyncio.Future[Any]] = {taking, left}
    await asyncio.wait(either, timeout=patience.left(), return_when=asyncio.FIRST_COMPLETED)
    if not taking.done():
        taking.cancel()
        await asyncio.wait({taking})
    return not taking.cancelled()


async def give_stream(who: SandboxCaller, turns: InputTurns, seconds: float | None) -> None:
    """Give a process the input of a stream of messages, as it arrives.

    Raises:
        InvalidArgument: it does not begin with the process that is meant.
    """
    reader, process = MessageReader(), None
    patience = Patience(seconds)
    patience.begin()
    async with aclosing(_arriving(who.request.stream())) as parts:
        async for part, left in parts:
            for message in reader.feed(part):
                asked = StreamInputBody.read(message)
                if asked.start is not None:
                    process = await _by_pid(who, asked.start.process)
                elif asked.data is not None and process is None:
                    raise InvalidArgument("cannot give input: the stream does not begin with the process")
                elif asked.data is not None and process is not None:
                    await give(who, turns, process, asked.data.input, patience.left(), left)
    reader.end()
    if process is None:
        raise InvalidArgument("cannot give input: the stream does not name a process")


async def leaving(who: SandboxCaller) -> None:
    """Wait until the client has left; its body was read."""
    while (await who.request.receive())["type"] != "http.disconnect":
        pass


async def _by_pid(who: SandboxCaller, process: ProcessChoice) -> ProcessChoice:
    """Return the same process by its pid, so that its turns have one name."""
    found = await who.in_session(who.sandbox, lambda found: sandbox_processes.running(found, process))
    return ProcessChoice(pid=found.pid)


async def _arriving(body: AsyncIterator[bytes]) -> AsyncGenerator[tuple[bytes, asyncio.Future[None]], None]:
    """Yield the parts of a body, each with a future that is done when the client leaves before the next part.

    So a client that leaves is noticed while the process does not read.
    """
    coming = asyncio.ensure_future(anext(body, None))
    try:
        while (part := await coming) is not None:
            left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            coming = asyncio.ensure_future(anext(body, None))
            coming.add_done_callback(partial(_note, left))
            yield part, left
    except ClientDisconnect as error:
        raise HTTPException(400, "the client left before the stream was whole") from error
    finally:
        coming.cancel()


def _note(left: asyncio.Future[None], coming: asyncio.Future[bytes | None]) -> None:
    if not coming.cancelled() and coming.exception() is not None and not left.done():
        left.set_result(None)


router = wire_router("e2b.process", prefix="/process.Process")
Turns = Annotated[InputTurns, Depends(input_turns)]
Nothing = dict[str, Any]


@router.post("/List")
async def list_processes(who: From) -> Any:
    """List the processes that run."""
    found = await who.in_session(who.sandbox, sandbox_processes.all_of)
    return {"processes": [each.described() for each in found if each.running]}


@router.post("/Start")
async def start(who: From) -> Response:
    """Start a process, and send its output and its end."""
    asked = StartBody.read(await connect_wire.only_message(who.request))
    seconds = connect_wire.seconds_given(who)
    return await connect_wire.streamed(who, who.sandbox, start_call(asked, who.user, seconds), seconds)


@router.post("/Connect")
async def connect(who: From) -> Response:
    """Send all output of a process, past and future, and its end."""
    asked = ProcessRef.read(await connect_wire.only_message(who.request))
    return await connect_wire.streamed(
        who, who.sandbox, connect_call(asked.process), connect_wire.seconds_given(who)
    )


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
    left = asyncio.ensure_future(leaving(who))
    try:
        await give(who, turns, body.process, body.input, connect_wire.seconds_given(who), left)
    finally:
        left.cancel()
    return {}


@router.post("/StreamInput")
async def stream_input(who: From, turns: Turns) -> Response:
    """Give a process input as it arrives."""
    await give_stream(who, turns, connect_wire.seconds_given(who))
    return Response(connect_wire.message({}) + connect_wire.last(), media_type=connect_wire.MEDIA_TYPE)


@router.post("/CloseStdin")
async def close_input(who: From, body: ProcessRef) -> Nothing:
    """Close the input of a process."""
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
