"""Decides the reachable destinations of a session through the gateway: by name first, then by the name's
addresses, which are looked up here.

A session has a few turns at a time, taken in order, and a limit to its patience: without turns, one could
ask for names whose servers do not answer until all other names wait.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_network
from pathlib import Path

from holdfast.runtime.gateway.names import Address, parsed_address
from holdfast.runtime.gateway.session_rules import SessionRules

# Closed whatever is opened: from there they would reach the host itself, or the cloud's metadata.
_NEVER = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "224.0.0.0/4",
            "::/128",
            "::1/128",
            "fe80::/10",
            "ff00::/8",
        ),
    )
)
AT_ONCE = 8
"""Look-ups of one session at a time."""
LOOKUP_SECONDS = 20.0
"""Limit for a look-up, its wait for a turn included."""
_NO_ADDRESS = (socket.EAI_NONAME, socket.EAI_NODATA)


def named(policy: SessionRules, host: str, port: int) -> bool:
    """Return whether a host in its canonical form can be reached at any internet address it has."""
    if not policy.only_domains:
        return True
    given = any(
        place.host == host and place.port == port for secret in policy.secrets for place in secret.hosts
    )
    return given or any(domain.covers(host, port) for domain in policy.domains)


def by_name_alone(policy: SessionRules, host: str, port: int) -> bool:
    """Return whether a host is reached because of its name, which then must be the one that is spoken to."""
    return policy.only_domains and named(policy, host, port)


def worth_asking(policy: SessionRules, host: str, port: int) -> bool:
    """Return whether to look up a name; only reachable names are, because the query itself would leak it."""
    opened = (host, port) in policy.opened_names or host in (name for name, _ in policy.names)
    return opened or named(policy, host, port) or parsed_address(host) is not None


def reachable(policy: SessionRules, host: str, port: int, addresses: Iterable[Address]) -> list[Address]:
    """Return the host's addresses that are permitted."""
    by_name = named(policy, host, port)
    return [
        address
        for address in addresses
        if not _within(address, _NEVER)
        and (_opened(policy, address, port) or _of_internet(policy, address, by_name))
    ]


def refusal(policy: SessionRules, host: str, port: int) -> str:
    """Return the line that explains a refusal to the requesting program."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    session = policy.session
    address = parsed_address(host)
    if address is not None and _within(address, _NEVER):
        return f"holdfast: {place} is the gateway's machine, a metadata service or unassigned: never allowed"
    if named(policy, host, port) and policy.denied:  # no exception for the name would help
        return (
            f"holdfast: {place} is at an address that this session cannot reach; "
            f"`holdfast network {session}` shows its denied addresses"
        )
    if named(policy, host, port):
        return (
            f"holdfast: {place} is at an address that this session cannot reach; "
            f"`holdfast network {session} --allow {place}` allows it"
        )
    option = f"--allow {place}" if address is not None else f"--domain {host if port in (80, 443) else place}"
    return (
        f"holdfast: {place} is not allowed for this session; `holdfast network {session} {option}` allows it"
    )


def _of_internet(policy: SessionRules, address: Address, by_name: bool) -> bool:
    if _within(address, policy.refused):
        return False
    return _within(address, policy.allowed) or (by_name and not _within(address, policy.denied))


def _opened(policy: SessionRules, address: Address, port: int) -> bool:
    return any(
        address.version == one.network.version and address in one.network and one.port in (None, port)
        for one in policy.opened
    )


def _within(address: Address, networks: Iterable[object]) -> bool:
    return any(address in network for network in networks)  # type: ignore[operator]


class NoAnswer(Exception):
    """The resolver did not give a definite answer."""


class Lookups:
    """The look-ups of all sessions. `ask` returns a name's addresses, or raises what `getaddrinfo` does."""

    def __init__(self, ask: Callable[[str], Awaitable[list[str]]], seconds: float = LOOKUP_SECONDS) -> None:
        self._ask, self._seconds = ask, seconds
        self._turns: dict[str, tuple[asyncio.Semaphore, set[object]]] = {}

    async def addresses(self, session: str, host: str) -> list[Address]:
        """Return the addresses of a name for a session; empty if the resolver reports that it has none.

        Raises:
            NoAnswer: the resolver does not answer.
        """
        turns, waiting = self._turns.setdefault(session, (asyncio.Semaphore(AT_ONCE), set()))
        mine = object()
        waiting.add(mine)
        try:
            async with asyncio.timeout(self._seconds), turns:
                found = await self._ask(host)
        except TimeoutError as error:
            raise NoAnswer from error
        except OSError as error:
            if error.errno in _NO_ADDRESS:
                return []
            raise NoAnswer from error
        finally:
            waiting.discard(mine)
            if not waiting:
                self._turns.pop(session, None)
        addresses = [parsed_address(text) for text in found]
        return list(dict.fromkeys(one for one in addresses if one is not None))


class MachinesResolver:
    """Asks the resolvers of /etc/resolv.conf, and /etc/hosts, as they are now; no thread waits for them."""

    FILES = (Path("/etc/resolv.conf"), Path("/etc/hosts"))

    def __init__(self) -> None:
        self._resolver: object = None
        self._stamps: list[object] = []

    async def __call__(self, host: str) -> list[str]:
        """Return the addresses of a name. Raises what `getaddrinfo` raises."""
        import mitmproxy_rs

        try:
            stamps = [_stamp(path) for path in self.FILES]
            if self._resolver is None or stamps != self._stamps:
                self._resolver, self._stamps = mitmproxy_rs.dns.DnsResolver(), stamps
            found: list[str] = await self._resolver.lookup_ip(host)  # type: ignore[attr-defined]
        except (RuntimeError, ValueError) as error:
            raise socket.gaierror(socket.EAI_FAIL, "the resolver is not usable") from error
        return found


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)
