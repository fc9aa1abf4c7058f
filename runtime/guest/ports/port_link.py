"""One connection to a server of this session, on its loopback. It knows no client and no protocol.

It can be closed at once, in the middle of anything: a capture must not find it.
"""

from __future__ import annotations

import asyncio
import socket
import struct

PIECE = 64 << 10
"""Bytes that are read at once."""
CONNECT_SECONDS = 10.0
"""A server that does not accept lets connections wait when its queue is full (listen(2))."""
LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


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
