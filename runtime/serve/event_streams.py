"""Calls whose events are sent as they happen: the call in a thread, its events in the body of the answer.

Between the two they are bounded: a slow reader slows the thread down.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Header
from starlette.responses import StreamingResponse

from holdfast.errors import HoldfastError
from holdfast.runtime.api.session import Session
from holdfast.runtime.serve import answer_forms, event_format
from holdfast.runtime.serve.call_threads import Parked
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.calls.followed_calls import ServedCall
from holdfast.runtime.serve.event_format import Event, Form

Item = TypeVar("Item")

ROOM = 1 << 20
"""Bytes that can be under way."""


class Lull:
    """The first moment of a call, in which the reader does not have to be woken: the end can follow
    immediately."""

    def __init__(self) -> None:
        self.is_over = False
        self.timer: asyncio.TimerHandle | None = None


class EventBridge(Generic[Item]):
    """A queue from one thread to one reader in the loop in which it was made."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._items: deque[tuple[Item, int]] = deque()
        self._size = 0
        self._arrived, self._sent = asyncio.Event(), asyncio.Event()
        self._ended = False
        self.left = False
        """True once the reader has left."""

    def put(self, item: Item, size: int, lull: Lull | None = None) -> None:
        """Pass on an item that counts for `size` bytes, from the thread; waits for room.

        In a lull the reader finds it with the next one, or when the lull is over. Once the reader has left,
        items are dropped.
        """
        with self._changed:
            while self._size >= self._room and not self.left:
                self._changed.wait()
            if self.left:
                return
            self._items.append((item, size))
            self._size += size
            wakes = lull is None or lull.is_over
        if wakes:
            self._wake()

    def lull(self, seconds: float) -> Lull:
        """Return a lull that is over after some time, or once it is ended; from the loop."""
        made = Lull()
        made.timer = self._loop.call_later(seconds, self._end, made)
        return made

    def end_lull(self, lull: Lull) -> None:
        """Let it be over now; from the loop."""
        assert lull.timer is not None
        lull.timer.cancel()
        self._end(lull)

    def _end(self, lull: Lull) -> None:
        with self._changed:  # what was put before is found now, what is put later wakes the reader
            lull.is_over = True
        self._arrived.set()

    def put_now(self, item: Item, size: int) -> None:
        """Pass on an item from the loop, whether or not there is room."""
        with self._changed:
            if not self.left:
                self._items.append((item, size))
                self._size += size
        self._arrived.set()

    async def room(self) -> None:
        """Wait until there is room, in the loop."""
        while self._size >= self._room and not self.left:
            self._sent.clear()
            await self._sent.wait()

    def end(self) -> None:
        """Let the reader find the end; from the thread."""
        self._ended = True
        self._wake()

    def leave(self) -> None:
        """Read no more, and let the thread pass; from the loop."""
        with self._changed:
            self.left = True
            self._items.clear()
            self._changed.notify_all()
        self._sent.set()

    async def items(self) -> AsyncIterator[Item]:
        """Yield items until the end."""
        while True:
            self._arrived.clear()
            while self._items:
                with self._changed:
                    item, size = self._items.popleft()
                    self._size -= size
                    self._changed.notify_all()
                self._sent.set()
                yield item
            if self._ended and not self._items:
                return
            await self._arrived.wait()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the server has ended
            self.leave()


FIRST_SECONDS = 1.0
"""How long an answer is not begun for want of an event: the first may be an error, which has a status."""


class CallResponse(StreamingResponse):
    """The answer with the events of a call; its end, for any reason, leaves the call."""

    def __init__(self, call: StreamedCall, content: AsyncIterator[bytes], media_type: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type=media_type, headers=headers)
        self._call = call
        self._cut = False

    def cut(self) -> None:
        """End the connection before the answer's end, which clients treat as a failure."""
        self._cut = True

    async def stream_response(self, send: Any) -> None:
        """Send its parts, and its end unless it is cut."""

        async def unless_cut(message: Any) -> None:
            if not (self._cut and message.get("more_body", True) is False):
                await send(message)

        await super().stream_response(unless_cut)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._call.leave()


class StreamedCall:
    """One call, and its queued events."""

    def __init__(self, caller: ApiCaller, ref: str, seconds: float | None, work: ServedCall) -> None:
        self._caller, self._ref, self._work = caller, ref, work
        self._session: Session | None = None
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
        """Stop waiting; the work continues."""
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

    def _body(self) -> Parked | None:
        last: dict[str, Any] | Parked | None = None
        try:
            if self._session is None:
                self._session = self._caller.session(self._ref)
            last = self._work(self._session, self._patience, self._bridge.put)
            if not isinstance(last, Parked):
                self._bridge.put({"event": "result", **last}, 0)
        except HoldfastError as error:
            self._bridge.put(error, 0)
        finally:
            if not isinstance(last, Parked):
                self._bridge.end()
        return last if isinstance(last, Parked) else None


KEEPALIVE_SECONDS = 15.0

LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", pattern=r"^\d{1,15}$")]
"""The last `id` that a reader of server-sent events has seen, sent when it reconnects."""


def place(last: str | None, given: int | None) -> int | None:
    """Return the start: the reader's last position, else the requested one."""
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
    call = StreamedCall(caller, ref, seconds, work)
    await call.begin()
    return CallResponse(call, _written(call, form), form)


async def _written(call: StreamedCall, form: Form) -> AsyncIterator[bytes]:
    """Yield the events of a call as they are sent."""
    async for event in call.events(KEEPALIVE_SECONDS):
        if event is None:
            yield event_format.pulse(form)
        elif isinstance(event, HoldfastError):
            yield event_format.written({"event": "error", **answer_forms.body_of(event)}, form)
        else:
            yield event_format.written(event, form)
