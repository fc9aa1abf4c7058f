"""Answers preceded by progress: the steps of an operation, and then its answer, a line each.

A client asks for it with the header `Holdfast-Steps`. An answer before any step begins is sent unchanged;
else the answer is 200 and `application/x-ndjson`: lines with `step`, and a last one with `status` and
`answer`. Only the newest step waits for a slow reader. Knows no path and no operation.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.base import printable_json
from holdfast.base.text import plain
from holdfast.runtime.operations import step

if TYPE_CHECKING:
    from holdfast.runtime.http_doors.admission import App, Receive, Scope, Send
    from holdfast.runtime.operations.step import Step

HEADER = "Holdfast-Steps"
MEDIA_TYPE = "application/x-ndjson"
PULSE_SECONDS = 15.0
"""After which a step is sent again: proxies end connections on which nothing is sent."""
_TEXT_MOST = 300
_NAME = HEADER.lower().encode()


class StepStreams:
    """An application whose requests can ask for the steps of their operations."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not any(name == _NAME for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return
        await _Answering(send).run(self._app, scope, receive)


class _Answering:
    """One answer, either passed on unchanged, or written as lines."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._step: Step | None = None
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._passed = self._written = False
        self._status = 500
        self._body: list[bytes] = []

    async def run(self, app: App, scope: Scope, receive: Receive) -> None:
        """Have the application answer; raise its errors."""
        with step.watched(self._watch):
            pump = asyncio.ensure_future(self._pump())
            try:
                await app(scope, receive, self._take)
            finally:
                pump.cancel()
                with suppress(asyncio.CancelledError):
                    await pump
        if self._written:
            body = b"".join(self._body)
            await self._line({"status": self._status, "answer": json.loads(body) if body else None})
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _watch(self, step: Step | None) -> None:
        """Write a step, from any thread."""
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._note, step)

    def _note(self, step: Step | None) -> None:
        self._step = step
        self._changed.set()

    async def _pump(self) -> None:
        while True:
            with suppress(TimeoutError):
                # Not `wait_for`: before Python 3.12 it drops a cancellation that comes as the wait ends.
                async with asyncio.timeout(PULSE_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            async with self._turn:
                if self._passed:
                    return
                if self._step is not None:
                    await self._line({"step": _plain(self._step)})

    async def _take(self, message: Any) -> None:
        """Process a part of the answer."""
        async with self._turn:
            if message["type"] == "http.response.start" and not self._written:
                self._passed = True
            if self._passed:
                await self._send(message)
            elif message["type"] == "http.response.start":
                self._status = message["status"]
            else:
                self._body.append(message.get("body", b""))

    async def _line(self, value: dict[str, Any]) -> None:
        if not self._written:
            self._written = True
            headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        text = printable_json.dumps(value, separators=(",", ":")) + "\n"
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _plain(step: Step) -> dict[str, Any]:
    return asdict(step) | {"text": plain(step.text, _TEXT_MOST)}
