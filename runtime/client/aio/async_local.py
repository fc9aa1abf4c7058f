"""Calls that need more of their process than connections: its terminal, its threads, a server of its own.

Written by hand, as `../blocking/remote_local.py` is. Work that blocks is in a thread, or refused.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NoReturn

from holdfast.base.home import Home
from holdfast.errors import HoldfastError, OnlyInProcess
from holdfast.runtime.client import client_address
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.client.http_call import PartStream
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.http_doors import door_setup
from holdfast.runtime.operations.context import no_progress


async def unpacked(body: AsyncIterator[bytes], unpack: Callable[[IO[bytes]], Copied]) -> Copied:
    """Return the work's result for the body. If the caller is cancelled, the work finds the body cut
    short."""
    loop = asyncio.get_running_loop()
    left, fetching = False, None

    async def following() -> bytes | None:
        nonlocal fetching
        fetching = asyncio.current_task()
        return None if left else await anext(body, None)

    stream = PartStream(lambda: asyncio.run_coroutine_threadsafe(following(), loop).result())
    work = asyncio.create_task(asyncio.to_thread(unpack, BufferedReader(stream, 1 << 18)))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        left = True
        if fetching is not None:
            fetching.cancel()
        with suppress(Exception, asyncio.CancelledError):  # it failed, since the body was cut short
            await work
        raise


_feeding: set[asyncio.Task[None]] = set()


def begin(
    parts: Iterable[bytes] | AsyncIterable[bytes],
    write: Callable[[bytes], Awaitable[object]],
    close: Callable[[], Awaitable[None]],
) -> None:
    """Write the parts, and then the end. A program that refuses them ends the feeding."""

    async def feed() -> None:
        try:
            if isinstance(parts, AsyncIterable):
                async for part in parts:
                    await write(part)
            else:
                for part in parts:
                    await write(part)
            await close()
        except HoldfastError:
            return  # the caller that follows the program sees how it ended

    task = asyncio.get_running_loop().create_task(feed())
    _feeding.add(task)  # the loop itself holds tasks weakly
    task.add_done_callback(_feeding.discard)


async def spawn(_session: object, *_args: Any, **_how: Any) -> NoReturn:
    """Refuse: pexpect blocks its caller.

    Raises:
        OnlyInProcess: always.
    """
    raise OnlyInProcess(
        "cannot spawn from a coroutine: pexpect blocks its caller",
        hint="use `RemoteHoldfast` in a thread, or `detach` and the job's `wait` and `send`",
    )


async def attached(_transport: AsyncTransport, _session: str, _how: Mapping[str, Any]) -> str:
    """Refuse: signals and the modes of a terminal belong to the whole process.

    Raises:
        OnlyInProcess: always.
    """
    raise OnlyInProcess(
        "cannot attach while an event loop runs: the terminal is the whole process's",
        hint="use `RemoteHoldfast`, or `holdfast attach`",
    )


class PrivateServer:
    """One server; its token is known to this process only.

    Raises:
        InvalidArgument: the packages of a server are not installed.
    """

    def __init__(self, home: Home) -> None:
        door_setup.check_packages("serve", "use a home under asyncio")
        from holdfast.runtime.http_doors import door_sockets
        from holdfast.runtime.http_doors.admission import Admission
        from holdfast.runtime.http_doors.request_limits import RequestRate
        from holdfast.runtime.serve import server_app
        from holdfast.runtime.serve.api_server import ApiServer
        from holdfast.runtime.serve.callers import Callers

        self._folder = TemporaryDirectory(prefix="holdfast-")
        path, token = Path(self._folder.name) / "socket", secrets.token_hex(24)
        self._opened: socket.socket = door_sockets.unix_listener(path)
        callers = Callers(home.create(), no_progress)
        app = server_app.application(callers, Admission(token, None), RequestRate(0, 1))
        self._server = ApiServer(app, callers)
        self.address = ClientAddress("http://localhost", str(path), token)
        # Requests wait in the socket until it answers.
        threading.Thread(target=self._run, name="holdfast-server", daemon=True).start()

    def close(self) -> None:
        """Shut down. Followed commands continue."""
        self._server.end()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._opened])
        finally:
            self._opened.close()
            self._folder.cleanup()


def opened(url: str | Path | Home | None, token: str | None) -> tuple[ClientAddress, Callable[[], None]]:
    """Return the address, and the function to call at the end.

    Raises:
        InvalidArgument: the URL is not valid, there is no token, or a home cannot be used without packages.
    """
    if isinstance(url, str) and client_address.is_url(url):
        return client_address.address_of(url, token), lambda: None
    own = PrivateServer(Home.at(url))
    return own.address, own.close
