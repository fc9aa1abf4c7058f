"""Connections to hosts that callers name: to public addresses, and networks that the owner allows.

A caller who can have the server send a request could reach through it what only the server reaches: services
of this machine, sessions, the metadata of a cloud. A name is looked up once, all its addresses are judged,
and the connection goes to the judged one; so a name that leads elsewhere a moment later gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import urlsplit

import httpcore

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

LONGEST_URL = 2000
_Address = IPv4Address | IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PublicAddresses:
    """The addresses that can be reached.

    Args:
        allowed: further networks, such as `127.0.0.0/8` or `10.1.2.3`.

    Raises:
        InvalidArgument: one of these is not a network.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = [_network(each) for each in allowed]

    def allow(self, address: str) -> bool:
        """Return whether an address is allowed, whatever form of IPv6 it is wrapped in."""
        try:
            found: _Address = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        inner = _inner(found)
        if any(inner.version == each.version and inner in each for each in self._allowed):
            return True
        return all(each.is_global and not each.is_multicast for each in (found, inner))

    def check(self, url: str) -> str:
        """Return a URL that is allowed, as far as that is known without a look-up.

        Raises:
            InvalidArgument: it is not.
        """
        try:
            at = urlsplit(url)
            port = at.port
        except ValueError:
            at, port = urlsplit(""), None
        host = at.hostname or ""
        if at.scheme not in ("http", "https") or not host or port == 0 or len(url) > LONGEST_URL:
            raise InvalidArgument("cannot send notices there: it is not a URL of http or https")
        if at.username is not None or at.password is not None or not re.fullmatch(r"[!-~]+", url):
            raise InvalidArgument(
                "cannot send notices there: a URL has neither names and passwords nor blanks",
                hint="put the secret for its host into the path",
            )
        if _is_address(host) and not self.allow(host):
            raise InvalidArgument(
                f"cannot send notices to {plain(host, 60)}: it is not a public address",
                hint="`holdfast serve --notices-to NETWORK` allows it",
            )
        if at.scheme == "http" and not self._allowed:
            raise InvalidArgument(
                "cannot send notices there: a notice must not cross the internet in the clear",
                hint="use https; `holdfast serve --notices-to NETWORK` allows http within a network",
            )
        return url

    def is_own(self, address: str) -> bool:
        """Return whether an address is in one of the networks that the owner allows."""
        inner = _inner(ipaddress.ip_address(address.partition("%")[0]))
        return any(inner.version == each.version and inner in each for each in self._allowed)


class JudgedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only; `in_the_clear`, to networks that the owner allows."""

    def __init__(self, addresses: PublicAddresses, *, in_the_clear: bool = False) -> None:
        self._addresses, self._clear = addresses, in_the_clear
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host.

        Raises:
            httpcore.ConnectError: it cannot be found, or one of its addresses is not allowed.
        """
        try:
            async with asyncio.timeout(timeout):
                rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise httpcore.ConnectError(f"{plain(host, 100)} cannot be found") from error
        found = [str(row[4][0]) for row in rows]
        # All of them: a name with one public address among others is no mistake of its owner.
        if not found or not all(map(self._addresses.allow, found)):
            raise httpcore.ConnectError(f"{plain(host, 100)} is not a public address")
        if self._clear and not self._addresses.is_own(found[0]):
            raise httpcore.ConnectError("it would cross the internet in the clear")
        return await self._inner.connect_tcp(found[0], port, timeout, local_address, socket_options)

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Refuse it."""
        raise httpcore.ConnectError("it is not a host")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise InvalidArgument(
            f"cannot allow notices to '{plain(text, 60)}': it is not a network",
            hint="for example 10.0.0.0/8 or 127.0.0.1",
        ) from error


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _inner(address: _Address) -> _Address:
    """Return the IPv4 address that one of IPv6 stands for."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)
