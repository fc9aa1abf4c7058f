"""Whose program listens at the address of a server on this machine.

Any user of a machine can listen on a port of loopback while no server does, or make a unix socket in a folder
that all can write to. What a home keeps secret is sent only to a program of the home's user. Knows nothing of
tokens and requests.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.errors import ServerUnavailable
from holdfast.procfs import sock_diag, socket_tables
from holdfast.procfs.socket_tables import SocketRow

_TABLES = ("tcp", "tcp6")
_PATIENCE = 5.0
"""Seconds for the kernel's answer."""
_ANY = frozenset(map(ipaddress.ip_address, ("0.0.0.0", "::")))  # noqa: S104 - compared, not listened on
_LOOPBACK = ("127.0.0.1", "::1")
"""What `localhost` stands for: a client may try either first."""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check(host: str, port: int) -> None:
    """Check that those who listen on a port of this machine's loopback are programs of this user.

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
            f"cannot give the token of this home to the server at {place}: it is a program of user {other}",
            hint="`holdfast serve` on another port, or with `--unix PATH`; HOLDFAST_TOKEN is sent to any",
        )


def _owners(host: str, port: int) -> Iterator[int]:
    wanted = {ipaddress.ip_address(each) for each in (_LOOPBACK if host == "localhost" else (host,))}
    for row in _listeners(port):
        if row.local_port == port and row.state == "listening" and _reached(row.local, wanted):
            yield row.uid


def _listeners(port: int) -> list[SocketRow]:
    """Return at least those that listen on a port, asked of the kernel, or read of its tables."""
    with suppress(OSError), sock_diag.opened(_PATIENCE) as link:
        return list(sock_diag.tcp(link, 1 << socket_tables.LISTENING))
    number = f":{port:04X} ".encode()
    found: list[SocketRow] = []
    for name in _TABLES:
        try:
            head, *lines = Path("/proc/net", name).read_bytes().splitlines()
        except FileNotFoundError as error:
            if name == _TABLES[0]:
                raise ServerUnavailable(
                    "cannot find out whose program the server is: this machine has no /proc/net/tcp",
                    hint="set HOLDFAST_TOKEN",
                ) from error
            continue  # the kernel has no IPv6
        found += socket_tables.internet(b"\n".join([head, *(line for line in lines if number in line)]), name)
    return found


def _reached(local: str, wanted: set[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    """Return whether who listens on an address gets connections to one of those that are wanted."""
    found = ipaddress.ip_address(local)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found in wanted or found in _ANY
