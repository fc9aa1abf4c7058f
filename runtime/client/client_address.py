"""A server's address, its user, its deadline, and the token for it.

The caller says it, or the environment, or the home here. Any user of a machine can listen on a port of
loopback while no server does, or make a unix socket in a folder that all can write to: a home's secrets are
sent only to a program of the home's user. A server that is being started again refuses connections until it
listens; it is waited for longer than one that accepts them and fails.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from holdfast.base import serving_record
from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, ServerUnavailable
from holdfast.procfs import sock_diag, socket_tables
from holdfast.procfs.socket_tables import SocketRow
from holdfast.runtime.http_doors.admission import TEAM_HEADER
from holdfast.runtime.http_doors.door_setup import SERVER

_TABLES = ("tcp", "tcp6")
_OWNER_SECONDS = 5.0
"""Seconds for the kernel's answer."""
_ANY = frozenset(map(ipaddress.ip_address, ("0.0.0.0", "::")))  # noqa: S104 - compared, not listened on
_LOOPBACK = ("127.0.0.1", "::1")
"""The addresses of `localhost`: a client can try either first."""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_port(host: str, port: int) -> None:
    """Check that the listeners on a port of this machine's loopback are programs of this user.

    Raises:
        ServerUnavailable: one is another user's, or that cannot be found out.
        ConnectionRefusedError: nothing listens there.
    """
    owners = set(_owners(host, port))
    if not owners:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    _require(owners, f"port {port} of {host}")


def check_socket(path: str) -> None:
    """Check that a unix socket is this user's.

    Raises:
        ServerUnavailable: it is another user's.
        OSError: there is none.
    """
    _require({Path(path).stat().st_uid}, path)


def _require(owners: set[int], place: str) -> None:
    for other in sorted(owners - {os.geteuid()}):
        raise ServerUnavailable(
            f"cannot give the token of this home to the server at {place}: it runs as user {other}",
            hint="`holdfast serve` on another port, or with `--unix PATH`; HOLDFAST_TOKEN is sent to any",
        )


def _owners(host: str, port: int) -> Iterator[int]:
    wanted = {ipaddress.ip_address(each) for each in (_LOOPBACK if host == "localhost" else (host,))}
    for row in _listeners(port):
        if row.local_port == port and row.state == "listening" and _reached(row.local, wanted):
            yield row.uid


def _listeners(port: int) -> list[SocketRow]:
    """Return at least the listeners on a port, from the kernel or its tables."""
    with suppress(OSError), sock_diag.opened(_OWNER_SECONDS) as link:
        return list(sock_diag.tcp(link, 1 << socket_tables.LISTENING))
    number = f":{port:04X} ".encode()
    found: list[SocketRow] = []
    for name in _TABLES:
        try:
            head, *lines = Path("/proc/net", name).read_bytes().splitlines()
        except FileNotFoundError as error:
            if name == _TABLES[0]:
                raise ServerUnavailable(
                    "cannot find out which user runs the server: this machine has no /proc/net/tcp",
                    hint="set HOLDFAST_TOKEN",
                ) from error
            continue  # the kernel has no IPv6
        found += socket_tables.internet(b"\n".join([head, *(line for line in lines if number in line)]), name)
    return found


def _reached(local: str, wanted: set[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    """Return whether a listener on an address gets connections to one of the wanted addresses."""
    found = ipaddress.ip_address(local)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found in wanted or found in _ANY


ATTEMPTS = 6
"""To connect again, within some six seconds."""
ATTEMPTS_IF_REFUSED = 9
"""The same while nothing listens there, within some twenty seconds."""
LONGEST_PAUSE = 5.0


def pause(attempt: int, error: BaseException) -> float | None:
    """Return the seconds until the next attempt; None to give up.

    Args:
        attempt: how many have failed since the call last heard of the server, this one included.
        error: why it failed.
    """
    if attempt >= (ATTEMPTS_IF_REFUSED if is_refusal(error) else ATTEMPTS):
        return None
    return min(LONGEST_PAUSE, 0.1 * (1 << attempt))


def is_refusal(error: BaseException) -> bool:
    """Return whether none of the addresses of the server's name has a listener."""
    if isinstance(error, ConnectionRefusedError | FileNotFoundError):
        return True
    # asyncio reports several addresses that failed in different words as one error without a number.
    parts = str(error).split("[Errno ")[1:] if isinstance(error, OSError) and error.errno is None else []
    return bool(parts) and all(part.startswith(f"{errno.ECONNREFUSED}]") for part in parts)


_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ClientAddress:
    """A server: the URL that requests begin with, its unix socket if it has one, and the token.

    `kept` is the file of a home with the token: only a program of this user gets it.
    """

    url: str
    socket: str | None
    token: str
    kept: Path | None = None

    def channels(self, session: str = "") -> str:
        """Return the URL of its WebSocket; `session` tells a proxy where calls of that session go."""
        query = f"?{urlencode({'session': session})}" if session else ""
        return self.websocket(f"/v1/channels{query}")

    def websocket(self, path: str) -> str:
        """Return the URL of a WebSocket at a path."""
        return "ws" + self.url.removeprefix("http") + path

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request: a restarted server can have made a new token."""
        given = {"Authorization": f"Bearer {(self.kept and _read(self.kept)) or self.token}"}
        return given | ({TEAM_HEADER: team} if (team := Home.team_named()) else {})

    def check(self) -> None:
        """Check that the listener is permitted to get the token, before the token is sent.

        Raises:
            ServerUnavailable: it is a program of another user.
            OSError: nothing listens there.
        """
        if self.kept is None:
            return
        if self.socket is not None:
            check_socket(self.socket)
            return
        parts = urlsplit(self.url)
        check_port(str(parts.hostname), parts.port or _PORTS[parts.scheme])


def is_url(given: object) -> bool:
    """Return whether this is the URL of a server, and not a folder."""
    return isinstance(given, str) and "://" in given


def address_of(url: str, token: str | None = None) -> ClientAddress:
    """Return the address of a server.

    Its token is that which is given, else HOLDFAST_TOKEN, else the key of `holdfast login`; of a server on
    this machine also the one in the caller's home, which only a program of the same user is given.

    Raises:
        InvalidArgument: the URL is malformed, or there is no token.
    """
    parts = urlsplit(url)
    base: str
    socket: str | None
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        base, socket, here = "http://localhost", parts.path, True
    elif parts.scheme in ("http", "https") and parts.hostname and not _more(url):
        base, socket = f"{parts.scheme}://{parts.netloc}", None
        here = is_loopback(parts.hostname)
    else:
        raise InvalidArgument(
            f"cannot use the server '{plain(url, 200)}': that is not the URL of a server",
            hint="for example http://127.0.0.1:8420, https://host.example, unix:///run/user/1000/server.sock",
        )
    told = token or os.environ.get(SERVER.variable) or _login(base, socket)
    kept = Home.own().root / SERVER.file_name if here and not told else None
    token = told or (_read(kept) if kept else None)
    if not token:
        raise InvalidArgument(
            "cannot use the server without its token",
            hint=f"set {SERVER.variable}, or `holdfast login {plain(url, 200)}`",
        )
    return ClientAddress(base, socket, token, kept)


def served(what: str) -> ClientAddress:
    """Return the server of HOLDFAST_URL, else one of this home that runs, as browsers reach it.

    Args:
        what: the purpose, for the error.

    Raises:
        ServerUnavailable: none runs that a browser can reach.
    """
    if given := os.environ.get("HOLDFAST_URL"):
        found = [given]
    else:
        found = [each.url for each in serving_record.running(Home.default())]
    reached = [each for each in found if not each.startswith("unix:")]
    if not reached:
        raise ServerUnavailable(
            f"cannot {what}: browsers do not reach the server at {found[0]}"
            if found
            else f"cannot {what}: no server of this home runs",
            hint="`holdfast serve` starts one; keep it running while it is used",
        )
    return address_of(serving_record.reached_here(reached[0]))


def is_logged_in(url: str) -> bool:
    """Return whether requests to a server are sent with the key of a login."""
    from holdfast.runtime.client import kept_logins

    return not os.environ.get(SERVER.variable) and is_url(url) and kept_logins.of(url) is not None


def _login(url: str, socket: str | None) -> str | None:
    """Return the key of the login at a server.

    Raises:
        InvalidArgument: it has ended. Nothing takes its place: that could act as someone else.
    """
    from holdfast.runtime.client import kept_logins

    login = kept_logins.of(url) if socket is None else None
    if login is not None and login.is_over:
        raise InvalidArgument(
            f"cannot use the login of {login.actor} at {url}: it has ended", hint=f"holdfast login {url}"
        )
    return login.key if login is not None else None


def _more(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.path.strip("/") or parts.query or parts.fragment or parts.username)


def _read(file: Path) -> str | None:
    with suppress(OSError):
        return file.read_text("ascii", "replace").strip() or None
    return None
