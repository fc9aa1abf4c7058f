"""The operation that joins a client to a port of this session: bytes both ways, until either end is gone.

After the answer `connected` the connection carries no more frames. The client's first byte is not for the
server: it says that the client has read the answer, and takes what follows as the server's bytes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

if TYPE_CHECKING:
    from holdfast.runtime.guest.ports.port_link import PortLink

MAX_LINKS = 128
PIECE = 64 << 10


async def connect(guest: Guest, call: ClientCall) -> None:
    """Connect to a port of loopback, and pass bytes on."""
    port = call.integer("port", low=1, high=65535)
    if len(guest.port_links) >= MAX_LINKS:
        raise RequestRefused(
            "busy", f"cannot reach port {port}: there are {MAX_LINKS} connections to ports already"
        )
    from holdfast.runtime.guest.ports.port_link import linked

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
