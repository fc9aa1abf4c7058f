"""Where programs that ask to be captured meet who serves them: requests in, answers out, across captures.

Whoever serves loses the connection with every capture, and is waited for a while after it. What is decided
about requests is in `captures.py`, how programs are reached in `asking.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.runtime.guest.captures.capture_fifo import Asking
from holdfast.runtime.guest.captures.captures import Answer, Captures, Request
from holdfast.runtime.guest.layout import IdentityPaths

GRACE = 30.0
"""Seconds after a capture within which who serves is expected back."""


class CaptureDesk:
    """One per session. `generation` tells how often the session was restored."""

    def __init__(self, paths: IdentityPaths, generation: Callable[[], int]) -> None:
        self._generation = generation
        self._asking = Asking(paths, self._asked)
        self._captures = Captures(self._asking.give)
        self._captures.heard = self._hear
        self._server: object | None = None
        self._came: asyncio.Event | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._snapshot = ""

    def begin(self) -> None:
        """Let programs ask."""
        self._asking.begin()

    def serve(self, server: object, holding: int) -> None:
        """Hand requests to a connection. Raises Refusal: somebody else serves."""
        self._captures.serve(holding)
        self._server, self._came = server, asyncio.Event()
        self._came.set()
        self._end_grace()

    async def next(self) -> tuple[int, Request]:
        """Return the next request, when there is one, of a program that still waits."""
        assert self._came is not None
        while True:
            while (found := self._captures.next()) is None:
                self._came.clear()
                await self._came.wait()
            number, request = found
            if self._asking.waits(request.asker):
                return number, request
            self._captures.answered(number, {})

    def answered(self, number: int, answer: Answer) -> None:
        """The host has done what it could."""
        self._captures.answered(number, answer)

    def left(self, server: object) -> None:
        """A connection that served has ended, by itself or because its client is gone."""
        if server is self._server:
            self._server = None
            self._captures.left(expected=False)

    def pausing(self) -> None:
        """All connections will be cut for a capture."""
        self._end_grace()
        self._server = None
        self._captures.left(expected=self._captures.open)

    def woken(self, event: str, snapshot: str) -> None:
        """The pause is over."""
        if event == "restored":
            self._snapshot = snapshot
            self._captures.restored(snapshot)
        elif self._captures.open:
            self._grace = asyncio.get_running_loop().call_later(GRACE, self._gone)

    def _asked(self, request: Request) -> None:
        self._captures.ask(request, self._generation(), self._snapshot)

    def _hear(self) -> None:
        if self._came is not None:
            self._came.set()

    def _gone(self) -> None:
        self._grace = None
        self._captures.left(expected=False)

    def _end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
