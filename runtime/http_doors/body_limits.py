"""Limits of what a request brings: the size of its body, and the time for its next part and for all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from holdfast.runtime.http_doors.door_guard import App, Receive, Scope, Send

MOST = 16 << 20
"""Bytes of a body that is read as a whole."""
PART_SECONDS = 30.0
WHOLE_SECONDS = 600.0
"""For a body that is read as a whole; the largest then comes with 28 kB/s."""
CLOSE = {"Connection": "close"}
"""Otherwise the rest of the body would be read, and dropped, for as long as the client sends it."""


Paths = frozenset[tuple[str, str]]
"""Methods and ends of paths."""


def limited(app: App, streams: Paths = frozenset(), typed: Paths = frozenset()) -> App:
    """Return an application whose requests have limited bodies.

    Bodies of `streams` are read as they come, and may have any size. Those that are `typed` may take any time
    as well: a person or a program makes them while they are sent.
    """

    async def limit(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        most = None if _one_of(scope, streams) else MOST
        seconds = None if _one_of(scope, typed) else PART_SECONDS
        await app(scope, _Body(receive, most, seconds).receive, send)

    return limit


def _one_of(scope: Scope, paths: Paths) -> bool:
    return any(scope["method"] == method and scope["path"].endswith(end) for method, end in paths)


class _Body:
    """The body of one request as it arrives."""

    def __init__(self, receive: Receive, most: int | None, seconds: float | None) -> None:
        self._receive, self._most, self._seconds = receive, most, seconds
        self._until = None if most is None else time.monotonic() + WHOLE_SECONDS
        self._size = 0
        self._whole = False

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next message.

        Raises:
            HTTPException: the body is too large, or does not arrive.
        """
        if self._whole:  # what follows is the client's leaving, which may take any time
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._left())
        except TimeoutError:
            raise HTTPException(408, "the rest of the body does not arrive", CLOSE) from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._most is not None and self._size > self._most:
                raise HTTPException(413, f"the body has more than {self._most} bytes", CLOSE)
        return message

    def _left(self) -> float | None:
        """Return the seconds in which the next part must arrive; None for any time."""
        if self._seconds is None or self._until is None:
            return self._seconds
        return min(self._seconds, max(0.0, self._until - time.monotonic()))
