"""The base of all tools: a call's session, patience, progress, errors in an agent's words.

The work of a call runs in a thread of its own. If the client leaves, the work continues without it; if the
client cancels the call, the work is asked to stop.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.base.text import colored, plain
from holdfast.errors import (
    CommandNotFound,
    HoldfastError,
    JobNotFound,
    KernelDied,
    SessionBusy,
    SessionDead,
    SessionExists,
    SessionNotFound,
    SnapshotNotFound,
)
from holdfast.runtime.http_doors.request_limits import SessionShares
from holdfast.runtime.mcp import outcomes
from holdfast.runtime.mcp.agent_sessions import AgentSession, AgentSessions
from holdfast.runtime.operations import step

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from holdfast.runtime.operations.step import Step

Result = TypeVar("Result")

PROGRESS_SECONDS = 5.0
"""Between two reports; clients end calls that report nothing for a minute."""
CANCELLATION_SECONDS = 0.5
"""How long after the end of a call its cancellation can still be received."""
MOST_AT_ONCE = 64
MOST_OF_SESSION = 16
"""Of these, into one session: those into one that does not answer leave the others to other sessions."""
_LAST_LINE = 160
_KEPT = 4096


class LastLine:
    """The last line of an output that another thread adds to."""

    def __init__(self) -> None:
        self._tail = b""
        self._step = ""

    def watch(self, step: Step | None) -> None:
        """Set the step that an operation begins, which is shown until there is output."""
        self._step = "" if step is None else str(step)

    def feed(self, data: bytes) -> None:
        """Add output."""
        self._tail = (self._tail + data[-_KEPT:])[-_KEPT:]

    @property
    def text(self) -> str:
        """The last non-empty line, without control characters; before there is one, the step."""
        shown = colored(self._tail.decode("utf-8", "replace"), keep=False).replace("\r", "\n")
        lines = [line.strip() for line in shown.split("\n") if line.strip()]
        return plain(lines[-1] if lines else self._step, _LAST_LINE)


class Cancellations:
    """The requests that clients have cancelled; a middleware of the server, which sees each notification."""

    def __init__(self) -> None:
        self._cancelled: dict[tuple[str | None, str], None] = {}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Note a cancellation, and pass everything on."""
        if ctx.method == "notifications/cancelled":
            request = (ctx.params or {}).get("requestId")
            if isinstance(request, str | int):
                self._cancelled[self._key(ctx, request)] = None
                while len(self._cancelled) > MOST_AT_ONCE:
                    del self._cancelled[next(iter(self._cancelled))]
        return await call_next(ctx)

    async def received(self, context: Any) -> bool:
        """Check, for a moment, whether the client cancelled this request rather than disconnected."""
        key = self._key(context.request_context, context.request_context.request_id)
        with anyio.move_on_after(CANCELLATION_SECONDS, shield=True):
            while key not in self._cancelled:
                await anyio.sleep(CANCELLATION_SECONDS / 10)
        return self._cancelled.pop(key, key) is None

    @staticmethod
    def _key(context: ServerRequestContext[Any, Any], request: Any) -> tuple[str | None, str]:
        # Clients number their requests themselves, each from the beginning. As text: not all keep the type.
        return getattr(context.session._connection, "session_id", None), str(request)


class PatientCalls:
    """Makes calls for the clients of one server."""

    def __init__(self) -> None:
        self.cancellations = Cancellations()
        self._running = 0
        self._shares = SessionShares(MOST_OF_SESSION)

    async def make(
        self,
        context: Context[Any, Any],
        work: Callable[[LastLine], Result],
        *,
        stop: Callable[[], object] | None = None,
        session: str | None = None,
    ) -> Result:
        """Do the work in a thread, and report its last line, or its step, every 5 s.

        `stop` is called, in a thread, if the client cancels the call. `session` is the session whose share
        of the threads it takes, until the work ends, whether or not its client is still there.

        Raises:
            SessionBusy: too much is being done, or too much in the session.
        """
        if session is not None and not await self._shares.wait(session):
            raise SessionBusy(
                f"cannot do more than {MOST_OF_SESSION} calls at a time in one session, and none has ended",
                hint="wait for some of them; `status` shows whether it answers",
            )
        if self._running >= MOST_AT_ONCE:
            self._give_back(session)
            raise SessionBusy(
                f"cannot make more than {MOST_AT_ONCE} calls at a time", hint="wait for some of them"
            )
        last, outcome = LastLine(), _Finished[Result]()
        async with anyio.create_task_group() as group:
            group.start_soon(self._report, context, last)
            try:
                await self._in_thread(lambda: outcome.of(lambda: _watched(work, last)), session)
            except anyio.get_cancelled_exc_class():
                if stop is not None and await self.cancellations.received(context):
                    with anyio.CancelScope(shield=True):
                        await self._in_thread(lambda: _Finished[object]().of(stop))
                raise
            group.cancel_scope.cancel()
        return outcome.value()

    def _give_back(self, session: str | None) -> None:
        if session is not None:
            self._shares.give_back(session)

    async def _in_thread(self, work: Callable[[], None], session: str | None = None) -> None:
        """Do the work in a thread of its own, which the process does not wait for at its end."""
        loop, done = asyncio.get_running_loop(), anyio.Event()

        def end() -> None:
            self._running -= 1
            self._give_back(session)
            done.set()

        def body() -> None:
            work()
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(end)

        self._running += 1
        threading.Thread(target=body, name="holdfast-call", daemon=True).start()
        await done.wait()

    @staticmethod
    async def _report(context: Context[Any, Any], last: LastLine) -> None:
        count = 0
        while True:
            await anyio.sleep(PROGRESS_SECONDS)
            count += 1
            await context.report_progress(count, message=last.text or "it runs; no output yet")


def _watched(work: Callable[[LastLine], Result], last: LastLine) -> Result:
    with step.watched(last.watch):
        return work(last)


class _Finished(Generic[Result]):
    """A thread's result or exception: a task group would wrap its exception."""

    def __init__(self) -> None:
        self._result: Result | None = None
        self._error: Exception | None = None

    def of(self, work: Callable[[], Result]) -> None:
        """Do the work, and keep its outcome."""
        try:
            self._result = work()
        except Exception as error:  # noqa: BLE001  (raised again by `value`)
            self._error = error

    def value(self) -> Result:
        """Return the result, or raise the error."""
        if self._error is not None:
            raise self._error
        return cast("Result", self._result)


_HINTS: Mapping[type[HoldfastError], str] = {
    SessionBusy: "`status` shows what runs; `wait` follows it, `answer` with key C-c interrupts it",
    SessionNotFound: "`sessions` lists them",
    SessionExists: "choose a different name",
    SessionDead: "`go_back` returns to a snapshot, if there is one; `sessions` starts another",
    SnapshotNotFound: "`status` lists the last snapshots",
    JobNotFound: "`status` shows what runs",
    CommandNotFound: "`status` shows what runs",
    KernelDied: "a new one has started; the variables are lost",
}
_LONGEST = 1000


def error_line(error: HoldfastError) -> str:
    """Return an error as one line, with the next step."""
    text = plain(str(error), _LONGEST)
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), error.hint)
    if not hint or "`holdfast" in hint:  # the agent has no command line
        return text
    return f"{text}: {plain(hint, 300)}"


Agents = Callable[[Context[Any, Any]], AgentSessions]

LONGEST_WAIT = 3600.0


class AgentTools:
    """A set of tools; `agents` returns the sessions of the client that calls."""

    def __init__(self, agents: Agents, calls: PatientCalls) -> None:
        self.agents = agents
        self._calls = calls

    async def call(
        self,
        context: Context[Any, Any],
        session: str,
        work: Callable[[AgentSession, LastLine], Result],
        *,
        stop: Callable[[AgentSession], object] | None = None,
    ) -> Result:
        """Do the work with a session, which is made if the default one does not exist."""
        used: list[AgentSession] = []

        def body(last: LastLine) -> Result:
            used.append(self.agents(context).of(session))
            return work(used[0], last)

        return await self.plainly(
            context,
            body,
            stop=None if stop is None else lambda: stop(used[0]) if used else None,
            session=session or self.agents(context).default.name,
        )

    async def plainly(
        self,
        context: Context[Any, Any],
        work: Callable[[LastLine], Result],
        *,
        stop: Callable[[], object] | None = None,
        session: str | None = None,
    ) -> Result:
        """Do the work in a thread, within the session's share if it concerns one.

        Raises:
            ToolError: it failed in a way that the agent should know of.
        """
        try:
            return await self._calls.make(context, work, stop=stop, session=session)
        except HoldfastError as error:
            raise ToolError(error_line(error)) from error
        except ConnectionError as error:
            raise ToolError(f"cannot reach the session: {error}") from error


def said(found: AgentSession, text: str, *facts: str) -> str:
    """Return an answer: the session's news, the text, the facts."""
    return outcomes.joined([*found.take_news(), text, outcomes.facts(facts)])


def patience(seconds: float) -> float:
    """Return how long a call waits, in seconds.

    Raises:
        ToolError: it is not such a number.
    """
    if not math.isfinite(seconds) or seconds < 0:
        raise ToolError("cannot wait that long: give seconds, such as 50")
    return min(seconds, LONGEST_WAIT)
