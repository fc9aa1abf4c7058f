"""Trees and recordings as bodies of answers: written by a thread as fast as the client reads."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from typing import IO

from starlette.responses import StreamingResponse

from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.serve.event_bridge import EventBridge


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
