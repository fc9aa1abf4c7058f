"""The operations on a port of this session, and on its server of ssh, which has none: bytes both ways until
either ends; and a bounded probe.

After the answer `connected` the connection carries no more frames. The client's first byte is not for the
server: it says that the client has read the answer, and takes what follows as the server's bytes. A link
can be closed at any moment, in the middle of anything: a capture must not find it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import struct
from contextlib import suppress
from typing import Any

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.identity.account import OWN_PROGRAMS
from holdfast.runtime.guest.identity.identity import with_identity
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

CONNECT_SECONDS = 10.0
"""A server that does not accept lets connections wait when its queue is full (listen(2))."""
LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
MAX_LINKS = 128
PIECE = 64 << 10
PROBE_PATIENCE = 1.0
GREETING = 0.05
"""Seconds within which a server that speaks first (SSH, SMTP, MySQL) sends its greeting."""
NO_HTTP = frozenset({3306, 5432, 5672, 6379, 9092, 11211, 27017})
"""Ports of databases and queues: they would log a complaint about the request."""
MAX_SSH_KEYS = 64 << 10
"""Bytes of the keys that an ssh connection comes with."""
SSH_GREETING = 20.0
"""Seconds for a server of ssh to say its version: it draws and reads keys before."""
_REQUEST = b"HEAD / HTTP/1.0\r\nHost: localhost\r\nUser-Agent: holdfast\r\n\r\n"
_REQUEST_PAGE = (
    b"GET / HTTP/1.0\r\nHost: localhost:%d\r\nAccept: text/html\r\n"
    b"User-Agent: holdfast\r\nConnection: close\r\n\r\n"
)
_MAX_ANSWER = 1024
_MAX_PAGE = 64 << 10
_TITLE_END = b"</title"
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})[^\r\n]{0,200}")


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
        """End it; sent data still arrive."""
        number = self._socket.fileno()
        if number >= 0:
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
            self._socket.close()

    def cut(self) -> None:
        """End it with a reset, so that the kernel keeps no trace of it."""
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
    if len(guest.port_cuts) >= MAX_LINKS:
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
    guest.port_cuts.add(link.cut)
    try:
        await _join(call, link)
    finally:
        guest.port_cuts.discard(link.cut)
        link.close()


async def ssh_connect(guest: Guest, call: ClientCall) -> None:
    """Start a server of ssh, and pass bytes on. The payload has its host key, and the keys it lets in."""
    from holdfast.runtime.guest.programs.ssh_server import SshNotStarted, SshOrder, SshServers

    try:
        keys = json.loads(call.frame.payload[:MAX_SSH_KEYS])
        host_key, client_keys = str(keys["host_key"]), str(keys["client_keys"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RequestRefused("invalid", "cannot connect by ssh: its keys must be texts") from None
    actor = str(call.actor())
    base = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment = with_identity(guest.account.environment(base), os.environ) | {"HOLDFAST_ACTOR": actor}
    # Last: the programs that only Holdfast has are found, and an image's own come before.
    environment["PATH"] += f":{OWN_PROGRAMS}"
    guest.ssh = guest.ssh or SshServers(guest.layout.state, guest.reaper, guest.lineage)
    try:
        server = guest.ssh.start(SshOrder(host_key, client_keys, actor, guest.account, environment))
    except SshNotStarted as error:
        raise RequestRefused(error.code, str(error)) from None
    link = PortLink(server.link)
    guest.notice("ssh_opened", actor=actor, pid=server.pid)
    try:
        first = b""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(SSH_GREETING):
                first = await link.receive()
        if not first:
            said = server.said() or "it does not answer"
            raise RequestRefused("ssh", f"cannot connect by ssh: the session's server failed: {said[:300]}")
        server.began()
        await _join(call, link, first)
    finally:
        server.close()
        guest.notice("ssh_closed", actor=actor, pid=server.pid)


async def _join(call: ClientCall, link: PortLink, first: bytes = b"") -> None:
    """Pass bytes on until the server ends; the end of the client cancels this.

    `first` are the bytes that the server has sent already.
    """
    sent = call.connection.as_bytes()
    await call.send("connected")
    await sent.readexactly(1)
    sending = asyncio.create_task(_pass_on(sent, link))
    try:
        if first:
            await call.connection.send_encoded(first)
        with suppress(OSError):
            while data := await link.receive():
                await call.connection.send_encoded(data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _pass_on(sent: asyncio.StreamReader, link: PortLink) -> None:
    """Pass the client's data on to the server; the end of that direction does not end the other."""
    with suppress(OSError):
        while data := await sent.read(PIECE):
            await link.send(data)


async def probe(_: Guest, call: ClientCall) -> None:
    """Test whether a port answers."""
    port = call.integer("port", low=1, high=65535)
    address = reachable(call.text("address", "127.0.0.1"))
    speak, page = (call.frame.head.get(name) is True for name in ("speak", "page"))
    found = await probe_port(address, port, speak=speak, page=page)
    await call.finish("probed", json.dumps(found).encode())


async def probe_port(
    address: str, port: int, *, speak: bool, page: bool = False, patience: float = PROBE_PATIENCE
) -> dict[str, Any]:
    """Connect, and report the outcome; with `speak`, also the reply of a web server.

    `answer` is accepted, refused, timeout or unreachable. With `page`, a web server is asked for its page:
    the `page` of the outcome is the beginning of its reply, up to a title if it has one, as Latin-1. A server
    that sends a greeting is sent nothing; and no server is sent anything that would change its state: GET and
    HEAD are safe, see RFC 9110, 9.2.1.
    """
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(address, port, limit=4096)
    except TimeoutError:
        return {"answer": "timeout"}
    except ConnectionRefusedError:
        return {"answer": "refused"}
    except OSError as error:
        return {"answer": "unreachable", "why": error.strerror or str(error)}
    found: dict[str, Any] = {"answer": "accepted"}
    try:
        if speak and port not in NO_HTTP:
            reply = await _reply(reader, writer, _REQUEST_PAGE % port if page else _REQUEST, patience, page)
            found.update(parse_reply(reply))
            if page and "http_status" in found:
                found["page"] = reply.decode("latin-1")
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(patience):
                await writer.wait_closed()
    return found


async def _reply(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, patience: float, page: bool
) -> bytes:
    """Return a server's greeting, or else the beginning of its reply, as far as it comes in time."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(GREETING):
            return await reader.read(_MAX_ANSWER)
    reply = bytearray()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(patience):
            writer.write(request)
            await writer.drain()
            while piece := await reader.read(_MAX_ANSWER if not page else _MAX_PAGE - len(reply)):
                reply += piece
                if not page or _TITLE_END in reply[-len(piece) - len(_TITLE_END) :].lower():
                    break
    return bytes(reply)


def parse_reply(data: bytes) -> dict[str, Any]:
    """Return the content of a reply's first bytes: an HTTP status, or else the first line, shortened."""
    if found := _STATUS.match(data):
        return {"http_status": int(found[1]), "first_line": _first_line(found[0])}
    return {"first_line": _first_line(data)} if data else {}


def _first_line(data: bytes) -> str:
    return data[:200].split(b"\n")[0].strip().decode("utf-8", "replace")


def reachable(local: str) -> str:
    """Return the address at which a listener on a local address can be reached from inside."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(local, local)  # noqa: S104


OPERATIONS: Operations = {"port_connect": connect, "ssh_connect": ssh_connect, "probe": probe}
