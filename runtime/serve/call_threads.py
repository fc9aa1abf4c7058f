"""Threads in which calls of the controller block, so that the event loop does not.

Each call has one to itself. They are counted, and one more than may run at once is refused: a queue behind
commands that wait would answer no caller.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.errors import ServerUnavailable, SessionBusy
from holdfast.runtime.serve.worker_threads import WorkerThreads

Result = TypeVar("Result")

MOST_WAITING = 512
"""Calls at once that wait for a command, a cell or an event."""
MOST_BRIEF = 64
"""Calls at once that end by themselves: snapshots, files, lists."""


class TooManyCalls(SessionBusy):
    """The server does as much at once as it may; the same request can be sent again soon."""

    code = "too_many_calls"


class ServerStopping(ServerUnavailable):
    """The server is being stopped, and cannot wait for the end of a call."""

    code = "server_stopping"


class CallThreads:
    """The threads of one kind of call; `most` may run at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._workers = WorkerThreads()
        self._awaited: set[asyncio.Future[Any]] = set()
        self.running = 0
        """How many run now."""

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do the work in a thread and return its result, or raise its error.

        A caller that is cancelled leaves the work behind, which still counts until it ends.

        Raises:
            TooManyCalls: too much is being done.
            ServerStopping: it was given up.
        """
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def finish(result: Result | None, error: BaseException | None) -> None:
            if done.done():  # nothing waits for it any more
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        self.begin(work, finish)
        self._awaited.add(done)
        try:
            return await done
        finally:
            self._awaited.discard(done)

    def begin(
        self, work: Callable[[], Result], finish: Callable[[Result | None, BaseException | None], None]
    ) -> None:
        """Do the work in a thread; `finish` is called in the loop with its result, or its error.

        Raises:
            TooManyCalls: too much is being done; `finish` is not called.
        """
        if self.running >= self._most:
            raise TooManyCalls(
                f"cannot do more than {self._most} such calls at once", hint="try again when one has ended"
            )
        loop = asyncio.get_running_loop()
        copied = contextvars.copy_context()

        def finished(result: Result | None, error: BaseException | None) -> None:
            self.running -= 1
            finish(result, error)

        def body() -> Callable[[], None]:
            result: Result | None = None
            error: BaseException | None = None
            try:
                result = copied.run(work)
            except BaseException as raised:  # noqa: BLE001  (raised again where it is awaited)
                error = raised

            def report() -> None:
                with suppress(RuntimeError):  # the server has ended
                    loop.call_soon_threadsafe(finished, result, error)

            return report

        self.running += 1
        try:
            self._workers.do(body)
        except RuntimeError:  # no more threads on this machine
            self.running -= 1
            raise TooManyCalls("cannot start another call: the machine has no room for its thread") from None

    def give_up(self) -> None:
        """Let all calls return at once, with an error; their threads continue for as long as the process."""
        for done in list(self._awaited):
            if not done.done():
                done.set_exception(
                    ServerStopping(
                        "cannot wait for the end of this: the server is being stopped",
                        hint="the next server or command completes or undoes what was begun",
                    )
                )
