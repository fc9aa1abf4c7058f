"""The queue between programs that request a capture and the host process that serves them, across captures.

The server loses its connection with every capture and is waited for afterwards. The decisions about requests
are in `captures.py`, the way to the programs in `capture_fifo.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.runtime.guest.captures.capture_fifo import RequestFifo
from holdfast.runtime.guest.captures.captures import Answer, CaptureRequests, Request
from holdfast.runtime.guest.layout import IdentityPaths

GRACE = 30.0
"""Seconds after a capture within which the server is expected back."""


class CaptureDesk:
    """The queue of a session. `generation` returns how often the session was restored."""

    def __init__(self, paths: IdentityPaths, generation: Callable[[], int]) -> None:
        self._generation = generation
        self._asking = RequestFifo(paths, self._asked)
        self._captures = CaptureRequests(self._asking.give)
        self._captures.heard = self._hear
        self._server: object | None = None
        self._came: asyncio.Event | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._snapshot = ""

    def begin(self, *, again: bool = False) -> None:
        """Accept requests of programs; `again`, also those that another supervisor had."""
        self._asking.begin(again=again)

    def serve(self, server: object, holding: int) -> None:
        """Hand requests to a connection.

        Raises:
            Refusal: another connection serves.
        """
        self._captures.serve(holding)
        self._server, self._came = server, asyncio.Event()
        self._came.set()
        self._end_grace()

    async def next(self) -> tuple[int, Request]:
        """Return the next request, once there is one, of a program that still waits."""
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
        """Pass on the host's answer to a request."""
        self._captures.answered(number, answer)

    def left(self, server: object) -> None:
        """Note that a connection that served has ended, on its own or because its client is gone."""
        if server is self._server:
            self._server = None
            self._captures.left(expected=False)

    def pausing(self) -> None:
        """Prepare for a capture, which cuts all connections."""
        self._end_grace()
        self._server = None
        self._captures.left(expected=self._captures.open)

    def woken(self, event: str, snapshot: str) -> None:
        """Resume after the pause."""
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
