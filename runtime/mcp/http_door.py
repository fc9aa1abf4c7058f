"""The server over HTTP, on loopback, for those who have the token.

Clients on this machine may belong to anyone, pages in a browser among them: without the token nothing is
answered, and the library checks Host and Origin against what a page of another site would send.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.mcp.agent_server import AgentServer

VARIABLE = "HOLDFAST_MCP_TOKEN"
PATH = "/mcp"
_FILE = "mcp-token"
_SHORTEST = 16
_BACKLOG = 128
_MOST_CONNECTIONS = 200
_IDLE_SECONDS = 3600.0
FIRST_REQUEST_SECONDS = 5.0
"""For the head of the first request of a connection to arrive; later ones have uvicorn's own limit."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Impatient(H11Protocol):
    """A connection that is closed if no request arrives in time: it would keep others out."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


def token_of(home: Home, given: str | None) -> tuple[str, Path | None]:
    """Return the token, and the file it is kept in unless it was given.

    Raises:
        InvalidArgument: the given one is too short to be a secret.
        OSError: the home cannot be written.
    """
    if given is not None:
        if len(given) < _SHORTEST or not given.isascii() or not given.isprintable():
            raise InvalidArgument(
                f"cannot use the token in {VARIABLE}: it needs {_SHORTEST} or more characters of ASCII",
                hint="`openssl rand -hex 16` makes one; without the variable one is made and kept",
            )
        return given, None
    file = home.root / _FILE
    with suppress(FileNotFoundError):
        kept = file.read_text("ascii", "replace").strip()
        if len(kept) >= _SHORTEST:
            return kept, file
    made = secrets.token_hex(24)
    private_files.replace(file, made + "\n", durable=False)
    return made, file


def listener(address: str) -> socket.socket:
    """Return a socket that listens on a port of loopback, given as `PORT` or `HOST:PORT`; 0 is any free one.

    Raises:
        InvalidArgument: the address is not on loopback, or is taken.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    host = "127.0.0.1" if host == "localhost" else host
    try:
        on_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        on_loopback = False
    if not on_loopback or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise InvalidArgument(
            f"cannot listen on '{address}': it must be a port of this machine's loopback",
            hint="`--http 8765`; from elsewhere, use an SSH tunnel",
        )
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, int(port)))
        opened.listen(_BACKLOG)  # from here on clients can connect, although nothing is answered yet
    except OSError as error:
        opened.close()
        raise InvalidArgument(
            f"cannot listen on '{address}': {error.strerror}", hint="another port may be free"
        ) from error
    return opened


def url(opened: socket.socket) -> str:
    """Return the address for clients."""
    host, port = opened.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


def application(server: AgentServer, opened: socket.socket, token: str) -> App:
    """Return what answers requests that arrive at a socket."""
    host = opened.getsockname()[0]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=_MOST_CONNECTIONS,
    )
    return guarded(app, token)


def serve(server: AgentServer, opened: socket.socket, token: str) -> None:
    """Serve until the process is asked to end."""
    config = uvicorn.Config(
        application(server, opened, token),
        log_level="error",
        access_log=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
        server_header=False,
        http=_Impatient,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[opened])


def guarded(app: App, token: str) -> App:
    """Return an application that passes on requests with the token, and the life of the process."""
    expected = f"Bearer {token}".encode()

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
        # One header, so that none of two programs on the way reads another one than this.
        if scope["type"] == "lifespan" or (len(given) == 1 and hmac.compare_digest(given[0], expected)):
            await app(scope, receive, send)
            return
        await _refused(send)

    return guard


async def _refused(send: Send) -> None:
    body = b'{"error": "unauthorized", "message": "send the token as `Authorization: Bearer TOKEN`"}\n'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
