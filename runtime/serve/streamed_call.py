"""One call in a thread, and its events on their way to the answer that sends them as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from holdfast.errors import HoldfastError
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.calls.served_call import ServedCall
from holdfast.runtime.serve.event_bridge import EventBridge
from holdfast.runtime.serve.event_format import Event

FIRST_SECONDS = 1.0
"""How long an answer is not begun for want of an event: the first may be an error, which has a status."""


class CallResponse(StreamingResponse):
    """The answer that has the events of a call, which is left at its end, however that comes."""

    def __init__(self, call: StreamedCall, content: AsyncIterator[bytes], media_type: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type=media_type, headers=headers)
        self._call = call
        self._cut = False

    def cut(self) -> None:
        """Let the connection end without the end of the answer, which a client takes for a failure."""
        self._cut = True

    async def stream_response(self, send: Any) -> None:
        """Send its parts, and its end unless it is cut."""

        async def unless_cut(message: Any) -> None:
            if not (self._cut and message.get("more_body", True) is False):
                await send(message)

        await super().stream_response(unless_cut)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._call.leave()


class StreamedCall:
    """One call, and its events on their way."""

    def __init__(self, caller: ApiCaller, ref: str, seconds: float | None, work: ServedCall) -> None:
        self._caller, self._ref, self._work = caller, ref, work
        self._bridge = EventBridge[Event | HoldfastError]()
        self._patience = caller.all.patience(seconds)
        self._events = self._bridge.items()
        self._next = self._following()
        self._running = asyncio.ensure_future(self._run())

    async def begin(self, seconds: float = FIRST_SECONDS) -> None:
        """Wait some seconds for the first event; raise it if it is an error."""
        waited: set[asyncio.Future[Any]] = {self._next, self._running}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._running.done() and (error := self._running.exception()) is not None:
            self._next.cancel()
            raise error
        if self._next.done() and isinstance(found := self._next.result(), HoldfastError):
            raise found
        if self._next.done() and self._next.result() is None:
            await self._running  # it has an error of another kind

    async def events(self, pulse: float) -> AsyncIterator[Event | HoldfastError | None]:
        """Yield the events as they come, None after each `pulse` seconds without one, and last its end.

        That is the event `result`, or an error.

        Raises:
            Exception: the call failed in a way that has no answer; what was sent is cut short.
        """
        while True:
            done, _ = await asyncio.wait({self._next}, timeout=pulse)
            if not done:
                yield None
                continue
            if (event := self._next.result()) is None:
                await self._running
                return
            yield event
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
            await self._caller.waits(self._body)
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
