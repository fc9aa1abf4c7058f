"""The operation that joins a client to a port of this session: bytes both ways, until either end is gone.

After the answer `connected` the connection carries no more frames. The client's first byte is not for the
server: it says that the client has read the answer, and takes what follows as the server's bytes. A link can
be closed at once, in the middle of anything: a capture must not find it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

CONNECT_SECONDS = 10.0
"""A server that does not accept lets connections wait when its queue is full (listen(2))."""
LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
MAX_LINKS = 128
PIECE = 64 << 10


class PortLink:
    """An open connection; to be closed."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> bytes:
        """Return the next bytes of the server; none at its end.

        Raises:
            OSError: the connection is lost.
        """
        return await self._loop.sock_recv(self._socket, PIECE)

    async def send(self, data: bytes) -> None:
        """Send bytes to the server, waiting while it does not read; raises as `receive` does."""
        await self._loop.sock_sendall(self._socket, data)

    def close(self) -> None:
        """End it; what was sent still arrives."""
        number = self._socket.fileno()
        if number >= 0:
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
            self._socket.close()

    def cut(self) -> None:
        """End it with a reset, so that nothing of it is left in the kernel."""
        if self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


async def linked(port: int) -> PortLink:
    """Connect to a port of loopback, by IPv4 and else by IPv6.

    Raises:
        OSError: nothing listens there, or does not accept in time.
    """
    refused: OSError | None = None
    for family, address in LOOPBACK:
        try:
            opened = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:  # there is no IPv6
            refused = refused or error
            continue
        link = PortLink(opened)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(opened, (address, port))
        except BaseException as error:
            link.close()
            if not isinstance(error, OSError) or isinstance(error, TimeoutError):
                raise
            refused = refused or error
        else:
            return link
    assert refused is not None
    raise refused


async def connect(guest: Guest, call: ClientCall) -> None:
    """Connect to a port of loopback, and pass bytes on."""
    port = call.integer("port", low=1, high=65535)
    if len(guest.port_links) >= MAX_LINKS:
        raise RequestRefused(
            "busy", f"cannot reach port {port}: there are {MAX_LINKS} connections to ports already"
        )

    try:
        link = await linked(port)
    except TimeoutError:
        raise RequestRefused("port_closed", f"cannot reach port {port}: its server does not accept") from None
    except OSError as error:
        told = error.strerror or "nothing listens there"
        raise RequestRefused("port_closed", f"cannot reach port {port}: {told}") from None
    guest.port_links.add(link)
    try:
        await _join(call, link)
    finally:
        guest.port_links.discard(link)
        link.close()


async def _join(call: ClientCall, link: PortLink) -> None:
    """Pass bytes on until the server ends; the end of the client cancels this."""
    sent = call.connection.as_bytes()
    await call.send("connected")
    await sent.readexactly(1)
    sending = asyncio.create_task(_pass_on(sent, link))
    try:
        with suppress(OSError):
            while data := await link.receive():
                await call.connection.send_encoded(data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _pass_on(sent: asyncio.StreamReader, link: PortLink) -> None:
    """Send the server what the client sends; that it reads no more does not end what it says."""
    with suppress(OSError):
        while data := await sent.read(PIECE):
            await link.send(data)


OPERATIONS: Operations = {"port_connect": connect}
