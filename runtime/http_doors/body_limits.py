"""Limits of what a request brings: the size of its body, and the time in which the next part must arrive."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from holdfast.runtime.http_doors.door_guard import App, Receive, Scope, Send

MOST = 16 << 20
"""Bytes of a body that is read as a whole."""
PART_SECONDS = 30.0
CLOSE = {"Connection": "close"}
"""Otherwise the rest of the body would be read, and dropped, for as long as the client sends it."""


def limited(app: App, streams: frozenset[tuple[str, str]] = frozenset()) -> App:
    """Return an application whose requests have limited bodies.

    `streams` are methods and ends of paths whose bodies are read as they come, and may have any size.
    """

    async def limit(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        endless = any(scope["method"] == method and scope["path"].endswith(end) for method, end in streams)
        await app(scope, _Body(receive, None if endless else MOST).receive, send)

    return limit


class _Body:
    """The body of one request as it arrives."""

    def __init__(self, receive: Receive, most: int | None) -> None:
        self._receive, self._most = receive, most
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
            message = await asyncio.wait_for(self._receive(), PART_SECONDS)
        except TimeoutError:
            raise HTTPException(408, "the rest of the body does not arrive", CLOSE) from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._most is not None and self._size > self._most:
                raise HTTPException(413, f"the body has more than {self._most} bytes", CLOSE)
        return message
