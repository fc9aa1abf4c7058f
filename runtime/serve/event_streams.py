"""Calls whose events are sent as they come: the call in a thread, its events in the body of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header
from starlette.responses import StreamingResponse

from holdfast.errors import HoldfastError
from holdfast.runtime.serve import error_answers, event_format
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.calls.served_call import ServedCall
from holdfast.runtime.serve.event_bridge import EventBridge
from holdfast.runtime.serve.event_format import Event, Form

KEEPALIVE_SECONDS = 15.0
FIRST_SECONDS = 1.0
"""How long an answer is not begun for want of an event: the first may be an error, which has a status."""

LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", pattern=r"^\d{1,15}$")]
"""What a reader of server-sent events sends when it connects again: the last `id` it has seen."""


def place(last: str | None, given: int | None) -> int | None:
    """Return where to begin: where the reader was, else where it says."""
    return given if last is None else int(last)


async def answered(caller: ApiCaller, ref: str, seconds: float | None, call: ServedCall) -> Any:
    """Answer with the result of a call, or with its events if the client accepts those.

    Raises:
        HoldfastError: it failed, before it had any event.
    """
    form = event_format.wanted(caller.request.headers.get("accept", ""))
    if form != event_format.JSON:
        return await stream(caller, ref, seconds, form, call)
    return await caller.patiently(ref, seconds, lambda found, patience: call(found, patience, None))


async def stream(
    caller: ApiCaller, ref: str, seconds: float | None, form: Form, work: ServedCall
) -> StreamingResponse:
    """Return the answer to a call in a session: its events, `result` or `error` last.

    Raises:
        HoldfastError: it failed before it had any.
    """
    call = _StreamedCall(caller, ref, seconds, work)
    await call.begin()
    return _EventResponse(call, form)


class _EventResponse(StreamingResponse):
    """The answer that has the events of a call, which is left at its end, however that comes."""

    def __init__(self, call: _StreamedCall, form: Form) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(call.written(form), media_type=form, headers=headers)
        self._call = call

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._call.leave()


class _StreamedCall:
    """One call, and its events on their way."""

    def __init__(self, caller: ApiCaller, ref: str, seconds: float | None, work: ServedCall) -> None:
        self._caller, self._ref, self._work = caller, ref, work
        self._bridge = EventBridge[Event | HoldfastError]()
        self._patience = caller.all.patience(seconds)
        self._events = self._bridge.items()
        self._next = self._following()
        self._running = asyncio.ensure_future(self._run())

    async def begin(self) -> None:
        """Wait a moment for the first event; raise it if it is an error."""
        waited: set[asyncio.Future[Any]] = {self._next, self._running}
        await asyncio.wait(waited, timeout=FIRST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if self._running.done() and (error := self._running.exception()) is not None:
            self._next.cancel()
            raise error
        if self._next.done() and isinstance(found := self._next.result(), HoldfastError):
            raise found

    async def written(self, form: Form) -> AsyncIterator[bytes]:
        """Yield the events as they are sent."""
        while True:
            done, _ = await asyncio.wait({self._next}, timeout=KEEPALIVE_SECONDS)
            if not done:
                yield event_format.pulse(form)
                continue
            if (event := self._next.result()) is None:
                return
            if isinstance(event, HoldfastError):
                event = {"event": "error", **error_answers.body_of(event)}
            yield event_format.written(event, form)
            self._next = self._following()

    def leave(self) -> None:
        """Wait no longer; what was begun continues."""
        self._patience.end()
        self._bridge.leave()
        self._next.cancel()

    def _following(self) -> asyncio.Future[Event | HoldfastError | None]:
        return asyncio.ensure_future(anext(self._events, None))

    async def _run(self) -> None:
        try:
            await self._caller.all.waiting.run(self._body)
        finally:
            self._caller.all.done(self._patience)

    def _body(self) -> None:
        try:
            last = self._work(self._caller.session(self._ref), self._patience, self._bridge.put)
            self._bridge.put({"event": "result", **last}, 0)
        except HoldfastError as error:
            self._bridge.put(error, 0)
        finally:
            self._bridge.end()
