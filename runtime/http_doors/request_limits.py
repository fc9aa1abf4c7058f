"""Limits of callers' requests: their rate, their size, and their number per session.

A call of a session that has its share waits a moment for the end of a previous one: many clients ask for
several short things in parallel. If none ends, the session does not answer, and only its own callers are
refused. Shares are used in one loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from holdfast.runtime.http_doors.admission import App, Receive, Scope, Send

MOST_BODY = 16 << 20
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

    Bodies of `streams` are read as they come, and can have any size. `typed` ones can also take any time: a
    person or a program makes them while they are sent.
    """

    async def limit(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        most = None if _one_of(scope, streams) else MOST_BODY
        seconds = None if _one_of(scope, typed) else PART_SECONDS
        await app(scope, _LimitedBody(receive, most, seconds).receive, send)

    return limit


def _one_of(scope: Scope, paths: Paths) -> bool:
    return any(scope["method"] == method and scope["path"].endswith(end) for method, end in paths)


class _LimitedBody:
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
            async with asyncio.timeout(self._left()):
                message = await self._receive()
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


MOST_IN_LINE = 64
"""Calls of one session that wait for their turn."""
TURN_SECONDS = 5.0
"""How long they wait."""


class SessionShares:
    """The shares of all sessions; at most `most` calls of one session run at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._running: dict[str, int] = {}
        self._in_line: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self, session: str) -> bool:
        """Take a turn of a session; return whether there was one."""
        running = self._running.get(session, 0)
        if running >= self.most:
            return False
        self._running[session] = running + 1
        return True

    async def wait(self, session: str) -> bool:
        """Wait for a turn; return whether it came in time."""
        if self.take(session):
            return True
        line = self._in_line.setdefault(session, deque())
        if len(line) >= MOST_IN_LINE:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await asyncio.wait({turn}, timeout=TURN_SECONDS)
        except asyncio.CancelledError:
            if turn.done():  # it was given just now
                self.give_back(session)
            raise
        finally:
            if not turn.done():
                line.remove(turn)
                if not line:
                    self._in_line.pop(session, None)
        return turn.done()

    def give_back(self, session: str) -> None:
        """Return a turn: to the first waiter, if there is one."""
        line = self._in_line.get(session)
        if line:
            line.popleft().set_result(None)
            if not line:
                del self._in_line[session]
            return
        left = self._running[session] - 1
        if left:
            self._running[session] = left
        else:
            del self._running[session]


class RequestRate:
    """At most `rate` requests a second in the long run, and `burst` in one go; 0 means no limit."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    def refused(self) -> float | None:
        """Count a request; return None if it can be answered, or the seconds until one can."""
        if self._rate <= 0:
            return None
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return None
        return (1 - self._left) / self._rate
