"""Where a server is, and the token for it: what the caller says, the environment, or the home here."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.client import listener_owner
from holdfast.runtime.http_doors.door_setup import SERVER

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ClientAddress:
    """A server: the URL that requests begin with, its unix socket if it has one, and the token.

    `kept` is the file of a home that the token is from: only a program of this user may get it.
    """

    url: str
    socket: str | None
    token: str
    kept: Path | None = None

    @property
    def channels(self) -> str:
        """The URL of its WebSocket."""
        return "ws" + self.url.removeprefix("http") + "/v1/channels"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request: a server that was started again may have made a new token."""
        return {"Authorization": f"Bearer {(self.kept and _read(self.kept)) or self.token}"}

    def check(self) -> None:
        """Check that who listens there may get the token, before it is sent.

        Raises:
            ServerUnavailable: it is a program of another user.
            OSError: nothing listens there.
        """
        if self.kept is None:
            return
        if self.socket is not None:
            listener_owner.check_socket(self.socket)
            return
        parts = urlsplit(self.url)
        listener_owner.check(str(parts.hostname), parts.port or _PORTS[parts.scheme])


def is_url(given: object) -> bool:
    """Return whether this is the URL of a server, and no folder."""
    return isinstance(given, str) and "://" in given


def address_of(url: str, token: str | None = None) -> ClientAddress:
    """Return the address of a server.

    Its token is that which is given, else that of HOLDFAST_TOKEN; of a server on this machine also the one in
    the caller's home, which only a program of the same user is given.

    Raises:
        InvalidArgument: the URL has another form, or there is no token.
    """
    parts = urlsplit(url)
    base: str
    socket: str | None
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        base, socket, here = "http://localhost", parts.path, True
    elif parts.scheme in ("http", "https") and parts.hostname and not _more(url):
        base, socket = f"{parts.scheme}://{parts.netloc}", None
        here = listener_owner.is_loopback(parts.hostname)
    else:
        raise InvalidArgument(
            f"cannot use the server '{plain(url, 200)}': that is not the URL of a server",
            hint="for example http://127.0.0.1:8420, https://host.example, unix:///run/user/1000/server.sock",
        )
    told = token or os.environ.get(SERVER.variable)
    kept = Home.default().root / SERVER.file_name if here and not told else None
    token = told or (_read(kept) if kept else None)
    if not token:
        raise InvalidArgument(
            "cannot use the server without its token",
            hint=f"set {SERVER.variable}; `holdfast serve` says where its token is",
        )
    return ClientAddress(base, socket, token, kept)


def _more(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.path.strip("/") or parts.query or parts.fragment or parts.username)


def _read(file: Path) -> str | None:
    with suppress(OSError):
        return file.read_text("ascii", "replace").strip() or None
    return None
