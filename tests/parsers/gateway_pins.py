"""The gateway's connections lead only to addresses that were judged for them.

Only the image of the gateway has mitmproxy: `python -m tests.parsers.gateway_pins` runs there.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any

from mitmproxy.proxy import server_hooks
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from holdfast.runtime.gateway.addon import pinned
from holdfast.runtime.gateway.names import Address
from holdfast.runtime.gateway.session_process import JudgedLoop, SessionHandler

JUDGED: Address = IPv4Address("198.51.100.7")


async def _names() -> None:
    """A name stands for the judged one, even if it is this machine's; no other is looked up."""
    loop = asyncio.get_running_loop()
    pinned.set(("localhost", [JUDGED]))
    assert [one[4] for one in await loop.getaddrinfo("localhost", 443)] == [(str(JUDGED), 443)]
    for kept in (None, ("other.test", [JUDGED])):
        pinned.set(kept)
        try:
            await loop.getaddrinfo("localhost", 443)
        except socket.gaierror:
            continue
        raise AssertionError(f"looked up beside {kept}")


async def _connected() -> None:
    """A connection that leads elsewhere all the same ends before anything is sent."""
    went: list[Any] = []

    async def goes_on(_: object, hook: object) -> None:
        went.append(hook)

    ProxyConnectionHandler.handle_hook = goes_on
    handler = SessionHandler.__new__(SessionHandler)

    async def hooked(peer: str | None) -> bool:
        server = SimpleNamespace(peername=peer and (peer, 443))
        before = len(went)
        try:
            await handler.handle_hook(server_hooks.ServerConnectedHook(SimpleNamespace(server=server)))
        except AssertionError:
            assert len(went) == before
            return False
        return True

    pinned.set(("a.test", [JUDGED]))
    assert await hooked(str(JUDGED))
    assert not await hooked("127.0.0.1")
    assert not await hooked(None)
    pinned.set(None)
    assert not await hooked(str(JUDGED))


def main() -> None:
    """Try both; a violation ends this process."""
    with asyncio.Runner(loop_factory=JudgedLoop) as runner:
        runner.run(_names())
        runner.run(_connected())
    sys.stdout.write("only to judged addresses\n")


if __name__ == "__main__":
    main()
