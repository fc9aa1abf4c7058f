"""The socket a door listens on (of loopback, of unix, or handed over by systemd), and its connections.

A flood of connections without the token closes its own oldest ones, and keeps no caller out. The head of
any request must be whole within a time.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import stat
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from holdfast.errors import InvalidArgument

BACKLOG = 512
_FIRST_INHERITED = 3
"""The first descriptor that systemd passes: sd_listen_fds(3), SD_LISTEN_FDS_START."""
_LONGEST_PATH = 107
"""Bytes of the path of a unix socket: unix(7), sun_path."""


def listener(address: str, *, anywhere: bool = False) -> socket.socket:
    """Return a socket that listens on a port, given as `PORT` or `HOST:PORT`; 0 is any free one.

    Args:
        address: on loopback.
        anywhere: also accept an address of another network of this machine.

    Raises:
        InvalidArgument: the address is not on loopback, or is taken.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    host = "127.0.0.1" if host == "localhost" else host
    try:
        allowed = anywhere or ipaddress.ip_address(host).is_loopback
        ipaddress.ip_address(host)
    except ValueError:
        allowed = False
    if not allowed or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        wanted = "an address and port of this machine" if anywhere else "a port of this machine's loopback"
        raise InvalidArgument(
            f"cannot listen on '{address}': it must be {wanted}",
            hint="`8765`, for example; from elsewhere, use an SSH tunnel",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, so that asyncio sets TCP_NODELAY on its connections: otherwise each answer takes 40 ms.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, int(port)))
        opened.listen(BACKLOG)  # from here on clients can connect, although nothing is answered yet
    except OSError as error:
        opened.close()
        raise InvalidArgument(
            f"cannot listen on '{address}': {error.strerror}", hint="choose a different port"
        ) from error
    return opened


def unix_listener(path: Path) -> socket.socket:
    """Return a unix socket that listens at a path, for this user alone.

    One on which no server listens any more is replaced.

    Raises:
        InvalidArgument: something else is at the path, or it cannot be made.
    """
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise InvalidArgument(
            f"cannot listen on '{path}': the path of a unix socket can have at most {_LONGEST_PATH} bytes",
            hint="choose a shorter one",
        )
    _remove_abandoned(path)
    opened = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)  # the socket must never exist with more rights, not even for a moment
    try:
        opened.bind(str(path))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise InvalidArgument(f"cannot listen on '{path}': {error.strerror}") from error
    finally:
        os.umask(mask)
    return opened


def inherited() -> socket.socket | None:
    """Return the socket that systemd hands over by sd_listen_fds(3), if it does.

    Raises:
        InvalidArgument: it hands over several, or something else.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    if (count := os.environ.get("LISTEN_FDS", "")) != "1":
        raise InvalidArgument(
            f"cannot use the sockets of systemd: expected one, found {count or 'none'}",
            hint="one ListenStream= in the .socket unit",
        )
    try:
        return socket.socket(fileno=_FIRST_INHERITED)
    except OSError as error:
        raise InvalidArgument(f"cannot use the socket of systemd: {error.strerror}") from error


def is_unix(opened: socket.socket) -> bool:
    """Check whether a socket is a unix socket, which no page in a browser reaches."""
    return opened.family == socket.AF_UNIX


def url(opened: socket.socket, path: str = "") -> str:
    """Return the address for clients."""
    if is_unix(opened):
        return f"unix:{os.fsdecode(opened.getsockname())}"
    host, port = opened.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def browsed(opened: socket.socket) -> str:
    """Return the address below whose name browsers on this machine reach a socket; empty if they do not."""
    if is_unix(opened):
        return ""
    host, port = opened.getsockname()[:2]
    address = ipaddress.ip_address(host)
    return f"http://localhost:{port}" if address.is_loopback or address.is_unspecified else ""


def _remove_abandoned(path: Path) -> None:
    """Remove a socket on which nothing listens."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InvalidArgument(f"cannot listen on '{path}': there is a file", hint="choose another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        if probe.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT):
            raise InvalidArgument(
                f"cannot listen on '{path}': a different server does", hint="stop it, or choose another path"
            )
    path.unlink(missing_ok=True)


FIRST_REQUEST_SECONDS = 5.0
"""For the head of the first request of a connection to arrive, from when it was made."""
NEXT_REQUEST_SECONDS = 30.0
"""For the head of a later request to arrive, from its first byte: uvicorn limits only how long none comes."""
MOST_STRANGERS = 1024
"""Connections without the token at once; more than one turn of the event loop accepts."""
ADMITTED = "holdfast.admitted"
"""The key of a request's scope under which its admission is noted."""

_strangers: dict[DoorConnection, None] = {}


class DoorConnection(H11Protocol):
    """A connection that is closed if no request arrives in time, or if too many came after it."""

    _awaited: RequestResponseCycle | None = None
    """The request after which the head of the next one has begun to arrive."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, and close the oldest one that has not shown the token."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(FIRST_REQUEST_SECONDS, self._give_up, None)
        _strangers[self] = None
        while len(_strangers) > MOST_STRANGERS:
            oldest = next(iter(_strangers))
            del _strangers[oldest]
            if not oldest.has_token:
                oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        _strangers.pop(self, None)
        self._waiting.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process the next bytes; the rest of a head must follow its beginning."""
        super().data_received(data)
        latest = self.cycle
        if latest is not None and latest.response_complete and self._awaited is not latest:
            self._awaited = latest
            self._waiting.cancel()
            self._waiting = self.loop.call_later(NEXT_REQUEST_SECONDS, self._give_up, latest)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand the connection over to the protocol of WebSockets, which admits or closes it immediately."""
        _strangers.pop(self, None)
        self._waiting.cancel()
        self._awaited = self.cycle  # no other request follows
        super().handle_websocket_upgrade(event)

    @property
    def has_token(self) -> bool:
        """True if its latest request showed the token."""
        return self.scope is not None and bool(self.scope.get(ADMITTED))

    def _give_up(self, latest: RequestResponseCycle | None) -> None:
        """Close the connection, unless a request other than this one has begun."""
        if self.cycle is latest and not self.transport.is_closing():
            self.transport.close()
