"""The number of connections to ports, and the end of one that no one waits for."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from holdfast.errors import PortClosed
from holdfast.runtime.serve.call_threads import TooManyOfSession
from holdfast.runtime.serve.session_links import (
    MOST_OF_SANDBOX,
    MOST_OPENING_OF_SANDBOX,
    MOST_SOCKETS_OF_SANDBOX,
    SessionLinks,
)

PATIENCE = 60


@pytest.fixture
def ends() -> Iterator[list[socket.socket]]:
    found: list[socket.socket] = []
    yield found
    for each in found:
        each.close()


@pytest.mark.parametrize(("websocket", "most"), [(False, MOST_OF_SANDBOX), (True, MOST_SOCKETS_OF_SANDBOX)])
def test_each_sandbox_has_its_share(ends: list[socket.socket], *, websocket: bool, most: int) -> None:
    def connect() -> socket.socket:
        near, far = socket.socketpair()
        ends.append(far)
        return near

    async def run() -> None:
        links = SessionLinks()
        opened = [links.opened("a", connect, websocket=websocket) for _ in range(most)]
        for each in opened:
            await each.__aenter__()
        with pytest.raises(TooManyOfSession):
            await links.opened("a", connect, websocket=websocket).__aenter__()
        async with links.opened("b", connect, websocket=websocket):
            pass
        for each in opened:
            await each.__aexit__(None, None, None)
        async with links.opened("a", connect, websocket=websocket):
            pass

    asyncio.run(run())
    for each in ends:
        each.settimeout(PATIENCE)
        assert each.recv(1) == b""  # the other end was closed


def test_failed_connections_do_not_count() -> None:
    def connect() -> socket.socket:
        raise PortClosed("cannot reach port 1: nothing listens there")

    async def run() -> None:
        links = SessionLinks()
        for _ in range(MOST_OF_SANDBOX + 1):
            with pytest.raises(PortClosed):
                await links.opened("a", connect, websocket=True).__aenter__()

    asyncio.run(run())


def test_connections_opened_too_late_are_closed(ends: list[socket.socket]) -> None:
    """Its caller left while the session was asked."""
    asked, goes_on = threading.Event(), threading.Event()

    def connect() -> socket.socket:
        near, far = socket.socketpair()
        ends.append(far)
        asked.set()
        assert goes_on.wait(PATIENCE)
        return near

    async def run() -> None:
        opening = asyncio.ensure_future(SessionLinks().opened("a", connect, websocket=False).__aenter__())
        await asyncio.to_thread(asked.wait, PATIENCE)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        goes_on.set()
        ends[0].setblocking(False)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ends[0], 1), PATIENCE) == b""

    asyncio.run(run())


def test_a_sandbox_whose_ports_do_not_open_leaves_threads_to_others(ends: list[socket.socket]) -> None:
    """The highest allowed number wait to be opened; a second sandbox's port is opened in the meantime."""
    go = threading.Event()

    def silent() -> socket.socket:
        go.wait(PATIENCE)
        raise PortClosed("cannot reach port 1: it does not answer")

    def connect() -> socket.socket:
        near, far = socket.socketpair()
        ends.append(far)
        return near

    async def opened(links: SessionLinks) -> None:
        async with links.opened("a", silent, websocket=False):
            pass

    async def run() -> None:
        links = SessionLinks()
        waiting = [asyncio.ensure_future(opened(links)) for _ in range(MOST_OF_SANDBOX)]
        while links._threads.running < MOST_OPENING_OF_SANDBOX:
            await asyncio.sleep(0)
        async with links.opened("b", connect, websocket=False):
            assert links._threads.running == MOST_OPENING_OF_SANDBOX
        go.set()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in errors} <= {PortClosed, TooManyOfSession}

    asyncio.run(run())
