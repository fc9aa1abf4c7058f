"""The server as a process: its socket, its loop, its end."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import uvicorn

from holdfast.base import own_memory
from holdfast.runtime.http_doors.admission import App
from holdfast.runtime.http_doors.door_sockets import DoorConnection
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.channels.channel_socket import ChannelSocket

GRACE_SECONDS = 10
"""For answers to be sent after the server was asked to end."""
KEEP_ALIVE_SECONDS = 75
DESCRIPTORS = 65_536
MOST_MESSAGE = 16 << 20
"""Bytes of a message of a WebSocket, as of the body of a request."""


Beside = Sequence[Callable[[], AbstractAsyncContextManager[object]]]
"""Contexts entered before the server answers, and left after its last answer, in the task of the server."""


def until_next(seconds: float) -> float:
    """Return the seconds until the next of the moments at which all tasks look that do so this often.

    A server has the same tasks for each of its teams: looks at one moment are one waking of the process.
    """
    return seconds - time.monotonic() % seconds


@asynccontextmanager
async def working(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run an endless task during the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()


class ApiServer(uvicorn.Server):
    """A server that lets waiting calls return before it ends."""

    def __init__(self, app: App, callers: Callers, beside: Beside = (), *, reports: bool = False) -> None:
        """Prepare the server. `reports`: systemd is notified when it is ready, and when it ends."""
        super().__init__(_config(app))
        self._report: Callable[[str], None] = _notify if reports else lambda _: None
        self._callers = callers
        self._beside = beside
        self._entered = AsyncExitStack()

    def end(self) -> None:
        """Request its end."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and report that to systemd."""
        for each in self._beside:
            await self._entered.enter_async_context(each())
        await super().startup(sockets)
        self._report("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End waiting calls, and then the server."""
        self._report("STOPPING=1")
        self._callers.stop()
        await super().shutdown(sockets)
        await self._entered.aclose()
        self._callers.close()


def serve(
    app: App,
    callers: Callers,
    opened: socket.socket,
    ready: Callable[[], None],
    beside: Beside = (),
) -> None:
    """Serve until the process is asked to end (SIGTERM, SIGINT); `ready` is called when that is possible.

    `beside` are entered before that and left at the end, on the server's loop.
    """
    own_memory.return_what_is_freed()
    _allow_descriptors()
    server = ApiServer(app, callers, beside, reports=True)
    # uvicorn raises the signal again once it has ended: to end when asked to is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.end())
    ready()
    server.run(sockets=[opened])


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        server_header=False,
        proxy_headers=False,
        http=DoorConnection,
        ws=ChannelSocket,
        ws_max_size=MOST_MESSAGE,
        ws_per_message_deflate=False,  # takes longer than what it saves on loopback
        lifespan="off",
    )


def _allow_descriptors() -> None:
    """Raise the process's limit of connections to the maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _notify(state: str) -> None:
    """Send a datagram to systemd, if it waits for one: sd_notify(3)."""
    address: Any = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(state.encode(), address)
