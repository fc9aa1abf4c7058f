"""Permission to ask over HTTP, and listening addresses: without engine and network."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.http_doors.admission import Admission, guarded
from holdfast.runtime.http_doors.door_setup import DoorToken, token_of
from holdfast.runtime.http_doors.door_sockets import listener, unix_listener, url

TOKEN = "0123456789abcdef0123"
DOOR = DoorToken("HOLDFAST_TEST_TOKEN", "test-token")
HOST = (b"host", b"127.0.0.1:8420")


def asked(
    *headers: tuple[bytes, bytes], kind: str = "http", admission: Admission | None = None
) -> int | None:
    """Return the status of the refusal; None if the request was passed on."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append({"status": None})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read of a request that is refused")

    async def ask() -> None:
        guard = guarded(app, admission or Admission(TOKEN))
        await guard({"type": kind, "headers": list(headers)}, receive, send)

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
    assert asked(HOST, bearer(TOKEN)) is None
    assert asked(HOST, (b"Authorization", b"Bearer " + TOKEN.encode())) is None


def test_pages_can_offer_the_token_as_a_subprotocol_of_a_websocket() -> None:
    """They cannot set its headers."""
    offered = (b"sec-websocket-protocol", b"holdfast.v1, bearer." + TOKEN.encode())
    assert asked(HOST, offered, kind="websocket") is None
    assert asked(HOST, offered, kind="http") == 401
    assert asked(HOST, (offered[0], offered[1] + b"0"), kind="websocket") == 401
    assert asked(HOST, (offered[0], offered[1] + b", bearer.other"), kind="websocket") == 401
    assert asked(HOST, offered, bearer("wrong"), kind="websocket") == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"localhost", None),
        (b"LOCALHOST:8420", None),
        (b"a.localhost:1", None),
        (b"127.9.9.9:8420", None),
        (b"[::1]:8420", None),
        (b"here.test:8420", None),
        (b"evil.test", 421),
        (b"127.0.0.1.evil.test", 421),
        (b"localhost.evil.test", 421),
        (b"10.0.0.1:8420", 421),
        (b"", 421),
        (b"\xff", 421),
    ],
)
def test_the_door_answers_by_its_own_names_only(host: bytes, status: int | None) -> None:
    """A name of another site that resolves to loopback is how its pages would come in."""
    admission = Admission(TOKEN, ["here.test"])
    assert asked((b"host", host), bearer(TOKEN), admission=admission) == status


def test_one_host_is_needed_and_over_a_unix_socket_none() -> None:
    assert asked(bearer(TOKEN)) == 421
    assert asked(HOST, (b"host", b"evil.test"), bearer(TOKEN)) == 421
    assert asked(bearer(TOKEN), admission=Admission(TOKEN, None)) is None


def test_a_page_of_the_same_place_has_the_same_origin() -> None:
    admission = Admission(TOKEN)
    for host, origin, refused in (
        (b"localhost:8420", b"http://localhost:8420", False),
        (b"localhost:8420", b"http://LOCALHOST:8420", False),
        (b"localhost:8420", b"http://localhost:3000", True),
        (b"localhost:8420", b"http://127.0.0.1:8420", True),
        (b"evil.test:8420", b"http://evil.test:8420", True),
    ):
        headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"host", host), (b"origin", origin)]
        assert (admission.refusal({"type": "http", "headers": headers}) is not None) == refused


def test_pages_of_other_origins_are_refused() -> None:
    admission = Admission(TOKEN, origins=["https://ide.test"])
    for kind in ("http", "websocket"):
        own, other = (b"origin", b"https://ide.test"), (b"origin", b"null")
        assert asked(HOST, own, bearer(TOKEN), kind=kind, admission=admission) is None
        assert asked(HOST, other, bearer(TOKEN), kind=kind, admission=admission) == 403
        assert asked(HOST, own, other, bearer(TOKEN), kind=kind, admission=admission) == 403
        assert asked(HOST, own, bearer(TOKEN), kind=kind) == 403


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
        listener(address)


def test_the_server_listens_before_it_prints_its_address_and_a_taken_port_is_refused() -> None:
    with listener("0") as opened:
        port = opened.getsockname()[1]
        assert url(opened, "/mcp") == f"http://127.0.0.1:{port}/mcp"
        import socket

        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        with pytest.raises(InvalidArgument, match="in use"):
            listener(f"localhost:{port}")


def test_the_token_is_made_once_and_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "home").create()
    before = os.umask(0)
    try:
        token, file = token_of(home, DOOR)
    finally:
        os.umask(before)
    assert file is not None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(token) >= 32
    assert token_of(home, DOOR) == (token, file)
    monkeypatch.setenv(DOOR.variable, TOKEN)
    assert token_of(home, DOOR) == (TOKEN, None)


def test_a_new_token_takes_the_place_of_the_one_that_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that the environment gives is not replaced: its next start would have it again."""
    home = Home(tmp_path / "home").create()
    before, _ = token_of(home, DOOR)
    after, file = token_of(home, DOOR, new=True)
    assert file is not None
    assert (after != before, file.read_text().strip()) == (True, after)
    assert token_of(home, DOOR) == (after, file)
    monkeypatch.setenv(DOOR.variable, TOKEN)
    with pytest.raises(InvalidArgument, match="cannot make a new token: HOLDFAST_TEST_TOKEN"):
        token_of(home, DOOR, new=True)


@pytest.mark.parametrize("given", ["", "short", "é" * 20, "a\nb" * 10, "with a blank in it"])
def test_a_weak_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(DOOR.variable, given)
    with pytest.raises(InvalidArgument, match="cannot use the token"):
        token_of(Home(tmp_path / "home").create(), DOOR)


def test_a_unix_socket_is_private_and_replaces_only_one_that_nobody_serves(tmp_path: Path) -> None:
    path = tmp_path / "door.sock"
    before = os.umask(0)
    try:
        opened = unix_listener(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert url(opened) == f"unix:{path}"
    with pytest.raises(InvalidArgument, match="a different server"):
        unix_listener(path)
    opened.close()
    unix_listener(path).close()
    path.unlink()
    path.write_text("a file")
    with pytest.raises(InvalidArgument, match="there is a file"):
        unix_listener(path)
    assert path.read_text() == "a file"
    with pytest.raises(InvalidArgument, match="107 bytes"):
        unix_listener(tmp_path / ("x" * 110))
