"""The process of one session in the gateway: mitmproxy as a library, with our addon and no pages of its own.

It takes connections from a channel, and ends when its traffic takes more memory than a session's limit.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

from h11._receivebuffer import ReceiveBuffer
from mitmproxy import options
from mitmproxy.addons import core, disable_h2c, errorcheck, proxyserver, tlsconfig
from mitmproxy.master import Master
from mitmproxy.proxy import commands, events, layers, mode_specs, server_hooks
from mitmproxy.proxy.layers import http
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestProtocolError,
    ResponseEndOfMessage,
    ResponseProtocolError,
)
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from holdfast.runtime.gateway import protocol_layers
from holdfast.runtime.gateway.addon import BUFFERED, Gateway, pinned
from holdfast.runtime.gateway.names import parsed_address
from holdfast.runtime.gateway.refusal_log import Refusals
from holdfast.runtime.gateway.session_rules import Policies

BUDGET = 96 << 20
"""The most memory for the traffic of one session, in bytes."""
AHEAD = 256 << 10
"""Bytes that are read of a connection while it waits for a decision, a look-up or its host."""
IDLE_SECONDS = 15.0
"""Time without a connection after which the process offers to end."""
_LOOK_EVERY = 1 << 20
"""Bytes of traffic between two looks at the memory."""
_RESOLVER_THREADS = "TOKIO_WORKER_THREADS"
_SHORT = 70
"""Exit status of a process that has used up its memory (EX_SOFTWARE)."""
UNFINISHED = 64 << 10
"""Size limit of unfinished data in one direction of a connection."""
INFORMATIONAL = 16
"""Answers of kind 1xx before the final one to a request."""
_INFORMATIONAL = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9]{2}[ \r\n]")
_LONG = "too long: a head, a line or trailers"
_SAYABLE = (
    "Connection killed",
    "Certificate verify failed",
    "connection cancelled",
    "[Errno",
    "too ",
)
_TOO_LARGE = b"HTTP/1.1 431 Too Large\r\nConnection: close\r\n\r\n"

Commands = Generator[commands.Command, Any, None]


class JudgedLoop(asyncio.SelectorEventLoop):
    """Connects only to addresses that were checked for the connection being made."""

    async def getaddrinfo(self, host: Any, port: Any, **asked: Any) -> list[Any]:
        """Return the checked addresses.

        Raises:
            OSError: none was judged.
        """
        kept = pinned.get()
        if kept is None or kept[0] != host:
            raise socket.gaierror(socket.EAI_NONAME, "not a name that was checked")
        return [
            (
                socket.AF_INET6 if one.version == 6 else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (str(one), port),
            )
            for one in kept[1]
        ]


class MemoryBudget:
    """Ends the process when it has grown too much; it looks as often as traffic could make it grow."""

    def __init__(self, most: int) -> None:
        self._most, self._seen = _private_memory() + most, 0

    def count(self, size: int) -> None:
        """Count bytes that arrived."""
        self._seen += size
        if self._seen >= _LOOK_EVERY:
            self._seen = 0
            if _private_memory() > self._most:
                logging.warning("the traffic of a session takes too much memory: its connections end")
                os._exit(_SHORT)


class SessionHandler(ProxyConnectionHandler):  # type: ignore[misc]  # its types are in the image
    """A connection of the session. It reads only so far ahead while something is decided or opened."""

    budget: MemoryBudget

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._deciding: set[object] = set()
        """Hooks that are being asked, and connections that are being opened."""
        self._ahead = 0
        self._moved = asyncio.Event()

    async def server_event(self, event: events.Event) -> None:
        """Count what arrives."""
        if isinstance(event, events.DataReceived):
            self.budget.count(len(event.data))
            self._ahead += len(event.data)
        await super().server_event(event)
        if isinstance(event, events.OpenConnectionCompleted):
            self._decided(event.command)

    async def open_connection(self, command: commands.OpenConnection) -> None:
        """Know that a connection is being opened."""
        self._deciding.add(command)
        try:
            await super().open_connection(command)
        finally:
            self._decided(command)

    async def hook_task(self, hook: commands.StartHook) -> None:
        """Know that a hook is being asked."""
        self._deciding.add(hook)
        try:
            await super().hook_task(hook)
        finally:
            self._decided(hook)

    def _decided(self, what: object) -> None:
        self._deciding.discard(what)
        self._moved.set()

    async def drain_writers(self) -> None:
        """Wait until there is room on the way, before more is read."""
        await super().drain_writers()
        while self._deciding:
            if self._ahead < AHEAD:
                return
            self._moved.clear()
            await self._moved.wait()
        self._ahead = 0

    async def handle_hook(self, hook: commands.StartHook) -> None:
        """Stop a connection to an address that was not checked, before any data are sent.

        Errors of addons are only logged, so this is not one.
        """
        if isinstance(hook, server_hooks.ServerConnectedHook):
            kept, server = pinned.get(), hook.data.server
            peer = parsed_address(server.peername[0]) if server.peername else None
            if kept is None or peer not in kept[1]:
                raise AssertionError("connected to an address that was not checked")
        await super().handle_hook(hook)


class Connections:
    """All connections of this process, and its channel to the first process."""

    def __init__(self, channel: socket.socket, master: Master) -> None:
        self._channel, self._master = channel, master
        self._mode = mode_specs.ProxyMode.parse("regular")
        self._open: set[asyncio.Task[None]] = set()
        self._taken = 0
        self._ended = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        channel.setblocking(False)
        asyncio.get_running_loop().add_reader(channel, self._take)

    async def all_done(self) -> None:
        """Wait for the first process to let go of this one, and for the last connection."""
        await self._ended.wait()
        while self._open:
            await asyncio.wait(self._open)

    def _take(self) -> None:
        try:
            said, descriptors, _, _ = socket.recv_fds(self._channel, 16, 1)
        except BlockingIOError:
            return
        if not said:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._ended.set()
            return
        self._taken += 1
        if self._idle is not None:
            self._idle.cancel()
        for descriptor in descriptors:
            task = asyncio.create_task(self._serve(socket.socket(fileno=descriptor)))
            self._open.add(task)
            task.add_done_callback(self._done)

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:  # its client is gone
            connection.close()
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        if writer.get_extra_info("peername") is None:
            writer.close()
            return
        handler = SessionHandler(self._master, reader, writer, self._master.options, self._mode)
        handler.layer = layers.modes.HttpProxy(handler.layer.context)
        await handler.handle_client()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logging.error("a connection failed: %r", error)
        if not self._open:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._offer_to_end)

    def _offer_to_end(self) -> None:
        if not self._open and not self._ended.is_set():
            self._channel.send(str(self._taken).encode())


def prepared(
    policies: Policies, refused: Path, authority: Path, roots: Path
) -> Callable[[socket.socket], None]:
    """Set up what all processes share, and return one process's function of its channel."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    logging.getLogger("mitmproxy").setLevel(logging.WARNING)
    os.environ[_RESOLVER_THREADS] = "1"
    _narrow_http()

    async def serve(channel: socket.socket) -> None:
        chosen = options.Options(mode=["regular"], server=False, confdir=str(authority), http2=False)
        master = Master(chosen, asyncio.get_running_loop())
        gateway = Gateway(policies, Refusals(refused))
        master.addons.add(
            core.Core(),
            gateway,
            protocol_layers.ProtocolLayers(gateway),
            disable_h2c.DisableH2C(),
            proxyserver.Proxyserver(),
            tlsconfig.TlsConfig(),
            errorcheck.ErrorCheck(),
        )
        chosen.update(
            ssl_verify_upstream_trusted_ca=str(roots),
            stream_large_bodies=str(BUFFERED),
            upstream_cert=False,
            validate_inbound_headers=True,
            connection_strategy="eager",
            websocket=False,  # its messages would be kept, and are not looked at
        )
        SessionHandler.budget = MemoryBudget(BUDGET)
        running = asyncio.create_task(master.run())
        await Connections(channel, master).all_done()
        master.shutdown()
        await running

    def run(channel: socket.socket) -> None:
        with asyncio.Runner(loop_factory=JudgedLoop) as runner:
            runner.run(serve(channel))

    return run


def _private_memory() -> int:
    """Return the bytes of this process that are not of files."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _narrow_http() -> None:
    """Set the limits, for all connections of this process."""
    _http1.make_error_response = partial(_brief, _http1.make_error_response)
    one, client = _http1.Http1Connection, _http1.Http1Client
    one._handle_event = _wrapped(one._handle_event, _bounded)
    one.read_body = _wrapped(one.read_body, _without_trailers)
    client.read_headers = _wrapped(client.read_headers, _final)
    # What comes after a change of protocol is passed on, and nothing of it is kept.
    http.tcp.TCPLayer = partial(layers.TCPLayer, ignore=True)


def _wrapped(read: Any, around: Any) -> Any:
    """Return a method wrapped in a second one. A partial function would not become a method."""

    def wrapped(self: Any, event: events.Event) -> Commands:
        return around(read, self, event)  # type: ignore[no-any-return]

    return wrapped


def _brief(made: Any, status: int, message: str = "") -> bytes:
    """Return an answer about an error in our words: mitmproxy's contain what was sent, maybe a value."""
    text = message if message.startswith(_SAYABLE) else "the request, or the host's response, is malformed"
    return bytes(made(status, f"holdfast: {text}"))


def _bounded(read: Any, self: Any, event: events.Event) -> Commands:
    yield from read(self, event)
    if isinstance(event, events.DataReceived) and len(self.buf) > UNFINISHED:
        heading = self.state == self.read_headers and isinstance(self, _http1.Http1Server)
        yield from _give_up(self, _LONG, _TOO_LARGE if heading else b"")


def _give_up(self: Any, why: str, answer: bytes = b"") -> Commands:
    """End the connection, and the exchange that it is used for."""
    self.buf = ReceiveBuffer()
    self.state = self.done
    if answer:
        yield commands.SendData(self.conn, answer)
    yield commands.CloseConnection(self.conn)
    if self.stream_id is not None:
        client = isinstance(self, _http1.Http1Server)
        code = ErrorCode.GENERIC_CLIENT_ERROR if client else ErrorCode.GENERIC_SERVER_ERROR
        error = (RequestProtocolError if client else ResponseProtocolError)(self.stream_id, why, code)
        yield ReceiveHttp(error)


def _without_trailers(read: Any, self: Any, event: events.Event) -> Commands:
    """Leave out the trailers of an answer, as RFC 9110 allows; a request that has some is refused.

    mitmproxy has none, and says so by an exception, after which the connection would hang.
    """
    try:
        yield from read(self, event)
    except NotImplementedError:
        if isinstance(self, _http1.Http1Server):
            yield from _give_up(self, "trailers")
        else:
            yield ReceiveHttp(ResponseEndOfMessage(self.stream_id))
            yield from self.mark_done(response=True)


def _final(read: Any, self: Any, event: events.Event) -> Commands:
    """Leave out informational answers; mitmproxy would take the first of them for the answer."""
    if isinstance(event, events.DataReceived) and self.request is not None:
        while _INFORMATIONAL.match(bytes(self.buf)[:16]) and self.buf.maybe_extract_lines() is not None:
            count = getattr(self.request, "informational", 0) + 1
            self.request.informational = count
            if count > INFORMATIONAL:
                yield from _give_up(self, "too many informational answers")
                return
        if not self.buf:
            return
    yield from read(self, event)
