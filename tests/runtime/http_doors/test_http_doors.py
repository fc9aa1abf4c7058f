"""Who may ask over HTTP, and where it listens: without engine and network."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.mcp import http_door

TOKEN = "0123456789abcdef0123"


def asked(*headers: tuple[bytes, bytes], kind: str = "http") -> int | None:
    """Return the status of the refusal; None if the request was passed on."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append({"status": None})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read of a request that is refused")

    async def ask() -> None:
        await http_door.guarded(app, TOKEN)({"type": kind, "headers": list(headers)}, receive, send)

    asyncio.run(ask())
    status: int | None = sent[0]["status"]
    return status


def bearer(token: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Bearer " + token.encode()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [bearer("")],
        [bearer(TOKEN[:-1])],
        [bearer(TOKEN + "0")],
        [(b"authorization", TOKEN.encode())],
        [(b"authorization", b"bearer " + TOKEN.encode() + b"\xff")],
        [bearer("wrong"), bearer(TOKEN)],
        [bearer(TOKEN), bearer("wrong")],
        [(b"cookie", b"Bearer " + TOKEN.encode())],
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_without_the_token_nothing_is_answered(headers: list[tuple[bytes, bytes]], kind: str) -> None:
    assert asked(*headers, kind=kind) == 401


def test_with_the_token_it_is() -> None:
    assert asked(bearer(TOKEN)) is None
    assert asked((b"Authorization", b"Bearer " + TOKEN.encode())) is None


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0:0",
        "8765x",
        "",
        "example.test:1",
        "[::]:0",
        "127.0.0.1:99999",
        "-1",
        "10.0.0.1:80",
        "127.0.0.1",
    ],
)
def test_only_ports_of_loopback_are_listened_on(address: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot listen on"):
        http_door.listener(address)


def test_it_listens_when_its_address_is_told_and_a_taken_port_is_refused() -> None:
    with http_door.listener("0") as opened:
        port = opened.getsockname()[1]
        assert http_door.url(opened) == f"http://127.0.0.1:{port}/mcp"
        import socket

        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        with pytest.raises(InvalidArgument, match="in use"):
            http_door.listener(f"localhost:{port}")


def test_the_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    before = os.umask(0)
    try:
        token, file = http_door.token_of(home, None)
    finally:
        os.umask(before)
    assert file is not None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(token) >= 32
    assert http_door.token_of(home, None) == (token, file)
    assert http_door.token_of(home, TOKEN) == (TOKEN, None)


@pytest.mark.parametrize("given", ["", "short", "é" * 20, "a\nb" * 10])
def test_a_weak_token_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot use the token"):
        http_door.token_of(Home(tmp_path / "home").create(), given)
