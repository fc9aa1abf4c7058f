"""How long a client looks for a server whose connection was lost."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.runtime.client.connect_again import is_refusal, pause


def pauses(error: BaseException) -> list[float]:
    """Return the pauses between attempts that all fail so."""
    found: list[float] = []
    while (seconds := pause(len(found) + 1, error)) is not None:
        found.append(seconds)
    return found


def test_a_server_that_is_started_again_is_waited_for_some_twenty_seconds() -> None:
    found = pauses(ConnectionRefusedError())
    assert found == sorted(found)
    assert 18 < sum(found) < 25
    assert max(found) <= 5


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), OSError(113, "No route to host")])
def test_one_that_accepts_or_is_out_of_reach_is_given_up_sooner(error: BaseException) -> None:
    assert 5 < sum(pauses(error)) < 8


def test_what_the_system_reports_where_nothing_listens_is_a_refusal(tmp_path: Path) -> None:
    """On one address, on all addresses of a name, and on a socket that is gone or abandoned."""
    with socket.socket() as reserved, socket.socket(socket.AF_INET6) as sixth:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        sixth.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        with suppress(OSError):  # a machine without IPv6
            sixth.bind(("::1", port))
        with pytest.raises(OSError) as raised:
            socket.create_connection(("127.0.0.1", port))
        assert is_refusal(raised.value)
        with pytest.raises(OSError) as raised:
            asyncio.run(asyncio.wait_for(_connected(port), 30))
        assert is_refusal(raised.value)
    path = tmp_path / "s"
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as client, pytest.raises(OSError) as raised:
            client.connect(str(path))
        assert is_refusal(raised.value)
        if not path.exists():
            with socket.socket(socket.AF_UNIX) as abandoned:
                abandoned.bind(str(path))


async def _connected(port: int) -> None:
    await asyncio.open_connection("localhost", port)


def test_a_refusal_by_some_addresses_alone_is_none() -> None:
    mixed = OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 113] No route")
    assert not is_refusal(mixed)
