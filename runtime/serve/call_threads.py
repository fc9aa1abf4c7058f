"""Threads in which calls of the controller block, in place of the event loop.

Each call has one to itself, which is kept for a while for the next: starting one takes as long as a brief
call. They are counted, and one more than the limit is refused: a queue behind waiting commands would answer
no caller. Calls into one session have a share of them: calls into a session that does not answer keep their
threads for their longest wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from holdfast.errors import ServerUnavailable, SessionBusy
from holdfast.runtime.http_doors.request_limits import SessionShares

IDLE_SECONDS = 30.0
"""How long a thread waits for more work before it ends."""
Work = Callable[[], Callable[[], None]]
"""Does something, and returns what reports the result; raises nothing."""


class WorkerThreads:
    """As many threads as there is simultaneous work, and the ones that have just become idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Work] = SimpleQueue()
        self._idle = 0
        """Threads for which nothing is queued."""

    def do(self, work: Work) -> None:
        """Start the work in a thread immediately.

        Raises:
            RuntimeError: no thread is idle, and no more can be started.
        """
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                self._queue.put(work)
                return
        threading.Thread(target=self._work, args=(work,), name="holdfast-call", daemon=True).start()

    def _work(self, work: Work | None) -> None:
        while work is not None:
            report = work()
            del work  # what it holds is not kept for as long as the thread is idle
            with self._lock:
                self._idle += 1
            report()  # the caller that hears of it finds this thread idle
            del report
            work = self._next()

    def _next(self) -> Work | None:
        """Return the next work; None if there was none for a while."""
        while True:
            try:
                return self._queue.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if (
                        self._queue.empty()
                    ):  # otherwise one was queued just now, and this thread is counted on
                        self._idle -= 1
                        return None


class Parked:
    """The result of a call that waits without a thread, and is called again once a thread wakes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._again: Callable[[], None] | None = None
        self._woken = False

    def wake(self) -> None:
        """Make the call again, once."""
        with self._lock:
            self._woken, again, self._again = True, self._again, None
        if again is not None:
            again()

    hang_up = wake
    """The end of a caller's patience also wakes it."""

    def then(self, again: Callable[[], None]) -> None:
        """Call this function on waking, or now if it was woken before."""
        with self._lock:
            if not self._woken:
                self._again = again
                return
        again()


Result = TypeVar("Result")

MOST_WAITING = 512
"""Concurrent calls that wait for a command, a cell or an event."""
MOST_BRIEF, MOST_BRIEF_OF_SESSION = 64, 8
"""Concurrent calls that end on their own: snapshots, files, lists."""
MOST_WAITING_OF_SANDBOX = 64
"""Of waiting calls, for holders of the token of a single sandbox."""


_NO_THREAD = "cannot start a further call: the machine cannot start a thread for it"


class TooManyCalls(SessionBusy):
    """The server has reached its limit of calls; the same request can be sent again soon."""

    code = "too_many_calls"


class TooManyOfSession(TooManyCalls):
    """The limit of calls into one session is reached, and none of them ends."""

    code = "too_many_calls_of_session"


class ServerStopping(ServerUnavailable):
    """The server is being stopped, and cannot wait for the end of a call."""

    code = "server_stopping"


class _ThreadedCall(Generic[Result]):
    """One call: made in a thread, and made again each time that it is woken while it waits.

    Neither it nor its result is in a cycle of references: its memory is freed as soon as the result is sent,
    and not when the garbage collector runs.

    Args:
        workers: the threads.
        work: the function that is called.
        finished: called in the loop with the result, or the error.
    """

    def __init__(
        self,
        workers: WorkerThreads,
        work: Callable[[], Result],
        finished: Callable[[Result | None, BaseException | None], None],
    ) -> None:
        self._workers, self._work, self._finished = workers, work, finished
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()

    def make(self) -> Callable[[], None]:
        """Make the call, in a thread; return a function that reports its result, or waits to repeat it."""
        try:
            result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001  (raised again where it is awaited)
            return partial(self._report, None, error)
        if isinstance(result, Parked):
            return partial(result.then, self._again)
        return partial(self._report, result, None)

    def _again(self) -> None:
        try:
            self._workers.do(self.make)
        except RuntimeError:
            self._report(None, TooManyCalls(_NO_THREAD))

    def _report(self, result: Result | None, error: BaseException | None) -> None:
        # An error has the frames of this call, which must not lead to where the error is kept.
        finished, self._finished = self._finished, _ignore
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(finished, result, error)


def _ignore(_result: object, _error: BaseException | None) -> None:
    pass


def _settle(done: asyncio.Future[Result], result: Result | None, error: BaseException | None) -> None:
    if done.done():  # nothing waits for it any more
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)  # type: ignore[arg-type]


class CallThreads:
    """The threads of one kind of call; `most` can run in parallel, and `most_of_session` into one session."""

    def __init__(self, most: int, most_of_session: int | None = None) -> None:
        self._most = most
        self._shares = SessionShares(most_of_session or most)
        self._workers = WorkerThreads()
        self._awaited: set[asyncio.Future[Any]] = set()
        self.running = 0
        """How many run now."""

    async def run(self, work: Callable[[], Result], session: str | None = None) -> Result:
        """Do the work in a thread and return its result, or raise its error.

        A caller that is cancelled leaves the work behind, which still counts until it ends. `session` is
        the session whose share it takes. Work that returns `Parked` is done again once that is woken, and
        also counts in between.

        Raises:
            TooManyCalls: too much is being done, or too much into the session.
            ServerStopping: it was given up.
        """
        if session is not None and not await self._shares.wait(session):
            raise TooManyOfSession(
                f"cannot do more than {self._shares.most} such calls into one session at a time, "
                "and none has ended",
                hint=(
                    "the session is perhaps not responding (`holdfast pulse`); try again when a call "
                    "has ended"
                ),
            )
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._begin(work, partial(_settle, done), session)
        self._awaited.add(done)
        try:
            return await done
        finally:
            self._awaited.discard(done)
            del done  # an error that is raised here has this frame, which would keep it

    def begin(
        self, work: Callable[[], Result], finish: Callable[[Result | None, BaseException | None], None]
    ) -> None:
        """Do the work in a thread; `finish` is called in the loop with its result, or its error.

        Raises:
            TooManyCalls: too much is being done; `finish` is not called.
        """
        self._begin(work, finish, None)

    def _begin(
        self,
        work: Callable[[], Result],
        finish: Callable[[Result | None, BaseException | None], None],
        session: str | None,
    ) -> None:
        """Begin work, which has taken a turn of the session."""
        if self.running >= self._most:
            self._end(session)
            raise TooManyCalls(
                f"cannot do more than {self._most} such calls at a time", hint="try again when one has ended"
            )
        call = _ThreadedCall(self._workers, work, partial(self._finished, finish, session))
        self.running += 1
        try:
            self._workers.do(call.make)
        except RuntimeError:  # no more threads on this machine
            self.running -= 1
            self._end(session)
            raise TooManyCalls(_NO_THREAD) from None

    def _finished(
        self,
        finish: Callable[[Result | None, BaseException | None], None],
        session: str | None,
        result: Result | None,
        error: BaseException | None,
    ) -> None:
        self.running -= 1
        self._end(session)
        finish(result, error)

    def _end(self, session: str | None) -> None:
        if session is not None:
            self._shares.give_back(session)

    def give_up(self) -> None:
        """Let all calls return immediately, with an error; their threads continue for as long as the
        process."""
        for done in list(self._awaited):
            if not done.done():
                done.set_exception(
                    ServerStopping(
                        "cannot wait for the result: the server is being stopped",
                        hint="the next server or command completes or undoes the operation",
                    )
                )
