"""Bodies in transit between the event loop and a thread: a slow reader slows the writer down.

Bodies of requests are read by a thread; trees and recordings are written by one as bodies of answers.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import IO, Self, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.event_streams import EventBridge

Result = TypeVar("Result")

ROOM = 4 << 20


class BodyCutShort(OSError):
    """The rest of the body will not come: the client has left, or the server refuses it."""


class BodyPipe:
    """The parts of a body, for one thread that reads them."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._cut = False
        self._room = asyncio.Event()

    async def feed_while(self, work: Awaitable[Result]) -> Result:
        """Pass on the body while work in a thread reads it; return the work's result, or raise its error."""
        reading = asyncio.ensure_future(work)
        feeding = asyncio.ensure_future(self._feed())
        try:
            await asyncio.wait({reading, feeding}, return_when=asyncio.FIRST_COMPLETED)
            if feeding.done() and (error := feeding.exception()) is not None:
                self.cut()
                await asyncio.wait({reading})
                reading.exception()  # it could not read the rest
                raise error
            return await reading
        finally:
            feeding.cancel()
            # It may have found just now that the client has left: the answer has another error already.
            feeding.add_done_callback(lambda fed: fed.cancelled() or fed.exception())

    async def _feed(self) -> None:
        try:
            async for part in self._stream:
                with self._changed:
                    self._parts.append(part)
                    self._size += len(part)
                    self._changed.notify_all()
                while self._size >= ROOM:
                    self._room.clear()
                    if self._size >= ROOM:
                        await self._room.wait()
        except ClientDisconnect as error:
            raise HTTPException(400, "the client left before the body was whole") from error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def cut(self) -> None:
        """Tell the thread that the rest will not come."""
        with self._changed:
            self._cut = True
            self._changed.notify_all()

    def parts(self) -> Iterator[bytes]:
        """Yield the parts, in the thread.

        Raises:
            BodyCutShort: the rest will not come.
        """
        while True:
            with self._changed:
                while not (self._parts or self._ended or self._cut):
                    self._changed.wait()
                if self._cut:
                    raise BodyCutShort("the body is incomplete")
                if not self._parts:
                    return
                part = self._parts.popleft()
                self._size -= len(part)
            self._loop.call_soon_threadsafe(self._room.set)
            yield part

    def file(self) -> IO[bytes]:
        """Return the body as a file, for the thread."""
        return io.BufferedReader(_PipeFile(self.parts()), 1 << 16)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()


class _PipeFile(io.RawIOBase):
    """Parts as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._parts = parts
        self._left = b""

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        while not self._left:
            found = next(self._parts, None)
            if found is None:
                return 0
            self._left = found
        count = min(len(view), len(self._left))
        view[:count], self._left = self._left[:count], self._left[count:]
        return count


def written_body(
    caller: ApiCaller, media_type: str, write: Callable[[IO[bytes]], object]
) -> StreamingResponse:
    """Return an answer whose body a function writes, in a thread. If it fails, the body is cut short."""
    bridge = EventBridge[bytes]()

    def body() -> None:
        try:
            stream = io.BufferedWriter(_BridgeFile(bridge), 1 << 18)
            write(stream)
            stream.flush()
        except Exception:
            if not bridge.left:  # then no one waits for what went wrong
                raise
        finally:
            bridge.end()

    async def content() -> AsyncIterator[bytes]:
        running = asyncio.ensure_future(caller.waits(body))
        try:
            async for piece in bridge.items():
                yield piece
            await running
        finally:
            bridge.leave()

    return StreamingResponse(content(), media_type=media_type)


class _BridgeFile(io.RawIOBase):
    """The end of a bridge into which a thread writes."""

    def __init__(self, bridge: EventBridge[bytes]) -> None:
        super().__init__()
        self._bridge = bridge

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, data: object) -> int:
        """Pass on bytes.

        Raises:
            BrokenPipeError: the client has left.
        """
        if self._bridge.left:
            raise BrokenPipeError("the client has left")
        piece = bytes(memoryview(data))  # type: ignore[arg-type]
        self._bridge.put(piece, len(piece))
        return len(piece)
