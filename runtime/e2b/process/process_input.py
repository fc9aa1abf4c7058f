"""Input on its way to processes, one piece after the other for each of them.

A process may not read for as long as it likes, so each piece waits in a thread with the client's patience.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.connect_frames import MessageReader
from holdfast.runtime.e2b.e2b_errors import InputNotTaken
from holdfast.runtime.e2b.process import sandbox_processes
from holdfast.runtime.e2b.process.process_bodies import InputBytes, ProcessChoice, StreamInputBody
from holdfast.runtime.e2b.sandbox_caller import SandboxCaller
from holdfast.runtime.guest_rpc.patience import Patience


class InputTurns:
    """Whose input is next, for each process of each sandbox: two at once would be mixed."""

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
                f"cannot give the process {process} this input: it does not read what was sent before"
            )
        try:
            await who.waits(work)
        finally:
            turn.release()
    finally:
        left.remove_done_callback(end)
        who.all.done(patience)


async def _taken(turn: asyncio.Lock, patience: Patience, left: asyncio.Future[None]) -> bool:
    """Wait for a turn while the client does; whether it has come."""
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
        raise InvalidArgument("cannot give input: the stream names no process")


async def leaving(who: SandboxCaller) -> None:
    """Wait until the client has left; its body was read."""
    while (await who.request.receive())["type"] != "http.disconnect":
        pass


async def _by_pid(who: SandboxCaller, process: ProcessChoice) -> ProcessChoice:
    """Return the same process by its pid: its turns have one name."""
    found = await who.in_session(who.sandbox, lambda found: sandbox_processes.running(found, process))
    return ProcessChoice(pid=found.pid)


async def _arriving(body: AsyncIterator[bytes]) -> AsyncGenerator[tuple[bytes, asyncio.Future[None]], None]:
    """Yield the parts of a body, each with a future that is done when the client leaves before the next.

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
