"""The supervisor's listening socket: when it closes, no connection is left open that nothing serves."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import cast

import pytest

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.supervisor_server import Server


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_is_being_accepted_is_closed(turns: int, tmp_path: Path) -> None:
    """However far the loop has got with it: one left open fails a capture, and its client waits forever."""

    async def close_during_accept() -> bytes:
        server = Server(tmp_path / "socket", cast("Guest", None), {})
        await server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "socket"))
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            client.settimeout(60)
            try:
                return client.recv(1)
            except ConnectionResetError:  # it was not accepted
                return b""

    assert asyncio.run(close_during_accept()) == b""
