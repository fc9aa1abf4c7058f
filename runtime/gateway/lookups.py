"""Looks up names for sessions: each has a few turns at a time, taken in order, and an end to its patience.

Without a turn, one session could ask for names whose servers do not answer until those of all others wait.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.runtime.gateway.names import Address, parsed_address

AT_ONCE = 8
"""Look-ups of one session at a time."""
SECONDS = 20.0
"""Limit for a look-up, its wait for a turn included."""
_NO_ADDRESS = (socket.EAI_NONAME, socket.EAI_NODATA)


class NoAnswer(Exception):
    """The resolver did not answer, or not with what a name has or has not."""


class Lookups:
    """The look-ups of all sessions. `ask` returns a name's addresses, or raises what `getaddrinfo` does."""

    def __init__(self, ask: Callable[[str], Awaitable[list[str]]], seconds: float = SECONDS) -> None:
        self._ask, self._seconds = ask, seconds
        self._turns: dict[str, tuple[asyncio.Semaphore, set[object]]] = {}

    async def addresses(self, session: str, host: str) -> list[Address]:
        """Return the addresses of a name for a session: none if the resolver says that it has none.

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
