"""A kernel of a session as ports of this machine, as clients of jupyter_client expect those of a kernel.

It passes messages between these ports and one WebSocket of the server's kernel gateway. It knows neither who
asked for the kernel nor how a kernel is started: `kernel_provisioner.py` does. Only clients that sign with
the key of the connection file are heard. The WebSocket is opened again when it was lost, under the same
name, so the session sends what was missed; a request that was on its way then is not sent a second time.
"""

from __future__ import annotations

import asyncio
import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import zmq
import zmq.asyncio
from jupyter_client.session import DELIM, Session
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, ServerUnavailable
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.guest.wire import kernel_messages
from holdfast.runtime.guest.wire.kernel_messages import MessageMalformed

HERE = "127.0.0.1"
PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
_ASKED = {"shell_port": "shell", "control_port": "control", "stdin_port": "stdin"}
"""The channels by which clients ask, by the names of their ports."""
_V1 = Subprotocol("v1.kernel.websocket.jupyter.org")
MOST_ROUTES = 4096
"""Requests whose clients are remembered."""
MOST_MESSAGE = 64 << 20
OPEN_SECONDS = 60.0
"""For the server to open the WebSocket: the session may have to wake up."""
PATIENCE = 120.0
"""Seconds without a server after which the kernel counts as lost."""
PAUSE = 0.5
_LATER = 503
"""The status for a session that sleeps: it is no loss, however long it lasts."""


class KernelBridge:
    """The ports of one kernel, from `start` until `close`.

    Args:
        address: the server.
        path: of the kernel's WebSocket there.
        client: the name by which the session knows this front end.
        session: signs and checks messages by the key of the connection file.
        ports: the ports to use; empty to choose free ones.
        wake: wakes the session when a client asks for something and it sleeps.
    """

    def __init__(
        self,
        address: ClientAddress,
        path: str,
        client: str,
        session: Session,
        ports: dict[str, int],
        wake: Callable[[], object],
    ) -> None:
        self._address, self._session, self._wanted, self._wake = address, session, ports, wake
        self._uri = address.websocket(f"{path}?{urlencode({'session_id': client})}")
        self._routes: OrderedDict[str, list[bytes]] = OrderedDict()
        self._sockets: dict[str, zmq.asyncio.Socket] = {}
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(256)
        self._ready: Future[dict[str, int]] = Future()
        self._asleep = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-kernel", daemon=True)
        self.lost = ""
        """Why it has ended without having been closed; empty otherwise."""

    def start(self) -> dict[str, int]:
        """Join the kernel, and return the ports by their names.

        Raises:
            ServerUnavailable: the server or the session cannot be reached.
            OSError: a wanted port is in use.
        """
        self._thread.start()
        return self._ready.result()

    @property
    def alive(self) -> bool:
        """Whether it passes messages on."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Give the ports back. The kernel continues."""
        if self._loop is not None and self._work is not None:
            with suppress(RuntimeError):  # it has ended just now
                self._loop.call_soon_threadsafe(self._work.cancel)
        self._thread.join()

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._work = asyncio.get_running_loop(), asyncio.current_task()
        context = zmq.asyncio.Context()
        try:
            connection = await self._opened()
            ports = {name: self._bind(context, name) for name in PORTS}
            self._ready.set_result(ports)
            await self._pass_on(connection)
        except (HoldfastError, OSError) as error:
            self.lost = str(error)
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(ServerUnavailable("cannot join the kernel: it was given up"))
            context.destroy(linger=100)

    def _bind(self, context: zmq.asyncio.Context, name: str) -> int:
        kind = {"iopub_port": zmq.PUB, "hb_port": zmq.REP}.get(name, zmq.ROUTER)
        opened = self._sockets[name] = context.socket(kind)
        opened.linger = 100
        wanted = self._wanted.get(name, 0)
        opened.bind(f"tcp://{HERE}:{wanted or '*'}")
        return wanted or int(bytes(opened.getsockopt(zmq.LAST_ENDPOINT)).rpartition(b":")[2].rstrip(b"\0"))

    async def _opened(self) -> ClientConnection:
        """Open the WebSocket.

        Raises:
            ServerUnavailable: it cannot be opened.
        """
        options: dict[str, Any] = {
            "additional_headers": self._address.headers,
            "subprotocols": [_V1],
            "compression": None,
            "max_size": MOST_MESSAGE,
            "open_timeout": OPEN_SECONDS,
            "close_timeout": 1,
        }
        try:
            self._address.check()
            if self._address.socket is not None:
                return await unix_connect(self._address.socket, uri=self._uri, **options)
            return await connect(self._uri, **options)
        except InvalidStatus as error:
            found = kernel_messages.parsed(bytes(error.response.body or b"{}"))
            why = str(found.get("message", f"the server answered {error.response.status_code}"))
            self._asleep = error.response.status_code == _LATER
            raise ServerUnavailable(f"cannot join the kernel: {plain(why, 500)}") from None
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise ServerUnavailable(
                f"cannot join the kernel: the server at {self._address.url} does not answer",
                hint="`holdfast serve` starts one; keep it running while it is used",
            ) from error

    async def _pass_on(self, connection: ClientConnection) -> None:
        """Pass messages on until the kernel is lost.

        Raises:
            ServerUnavailable: the kernel is lost.
        """
        tasks = [
            asyncio.create_task(self._ask(self._sockets[name], channel)) for name, channel in _ASKED.items()
        ]
        tasks.append(asyncio.create_task(self._beat(self._sockets["hb_port"])))
        try:
            await self._stay_joined(connection)
        finally:
            for each in tasks:
                each.cancel()

    async def _stay_joined(self, connection: ClientConnection) -> None:
        while True:
            sending = asyncio.create_task(self._send(connection))
            try:
                with suppress(ConnectionClosed):
                    async for data in connection:
                        if isinstance(data, bytes):
                            await self._hear(data)
            finally:
                sending.cancel()
                await connection.close()
            connection = await self._again()

    async def _again(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while True:
            self._asleep = False
            try:
                return await self._opened()
            except ServerUnavailable:
                if self._asleep:
                    end = loop.time() + PATIENCE
                elif loop.time() > end:
                    raise
            if self._asleep and not self._outgoing.empty():
                with suppress(HoldfastError):
                    await asyncio.to_thread(self._wake)
            await asyncio.sleep(PAUSE)

    async def _send(self, connection: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                await connection.send(await self._outgoing.get())

    async def _beat(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            await socket.send_multipart(await socket.recv_multipart())

    async def _ask(self, socket: zmq.asyncio.Socket, channel: str) -> None:
        """Take the requests of clients that sign them; others are not answered."""
        while True:
            received = await socket.recv_multipart()
            with suppress(MessageMalformed, ValueError):
                at = received.index(DELIM)
                signature, *parts = received[at + 1 :]
                if len(parts) < kernel_messages.JSON_PARTS or not self._signed(signature, parts):
                    continue
                self._routes[kernel_messages.header_of(parts)["msg_id"]] = received[:at]
                while len(self._routes) > MOST_ROUTES:
                    self._routes.popitem(last=False)
                await self._outgoing.put(kernel_messages.pack(channel, parts))

    def _signed(self, signature: bytes, parts: list[bytes]) -> bool:
        return hmac.compare_digest(self._session.sign(parts[: kernel_messages.JSON_PARTS]), signature)

    async def _hear(self, data: bytes) -> None:
        """Send a message of the kernel to its client, or to all that listen."""
        with suppress(MessageMalformed):
            channel, parts = kernel_messages.unpack(data)
            header = kernel_messages.header_of(parts)
            signed = [DELIM, self._session.sign(parts[: kernel_messages.JSON_PARTS]), *parts]
            if channel == "iopub":
                await self._sockets["iopub_port"].send_multipart([header["msg_type"].encode(), *signed])
                return
            route = self._routes.get(str(kernel_messages.parsed(parts[1]).get("msg_id")))
            if route is not None:
                await self._sockets[f"{channel}_port"].send_multipart([*route, *signed])
