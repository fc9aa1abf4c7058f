"""Servers by their texts, the sources and recipients of tokens, and the longest wait for a server."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import anyio
import pytest

from holdfast.errors import InvalidArgument, ServerUnavailable
from holdfast.procfs import sock_diag
from holdfast.runtime.client import client_address
from holdfast.runtime.client.aio.async_holdfast import AsyncHoldfast
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.client.client_address import address_of, is_refusal, is_url, pause


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    (tmp_path / "server-token").write_text(f"{TOKEN}\n")


@pytest.mark.parametrize(
    ("url", "base", "channels", "socket"),
    [
        ("http://127.0.0.1:8420", "http://127.0.0.1:8420", "ws://127.0.0.1:8420/v1/channels", None),
        ("https://host.example/", "https://host.example", "wss://host.example/v1/channels", None),
        ("unix:///run/s.sock", "http://localhost", "ws://localhost/v1/channels", "/run/s.sock"),
    ],
)
def test_servers(url: str, base: str, channels: str, socket: str | None) -> None:
    """Each form of URL has its address, its channels' address, its socket, and the given token."""
    found = address_of(url, "given")
    assert (found.url, found.channels(), found.socket) == (base, channels, socket)
    assert found.headers == {"Authorization": "Bearer given"}


@pytest.mark.parametrize(
    "url",
    ["http://", "ftp://host", "http://host/v1", "http://me:pw@host", "http://host?x", "unix://rel", "host:1"],
)
def test_others(url: str) -> None:
    """Text that is not the URL of a server is refused."""
    with pytest.raises(InvalidArgument, match="not the URL of a server"):
        address_of(url, "given")


def test_the_token_of_this_machine_is_in_the_home(tmp_path: Path) -> None:
    """It goes to loopback addresses and to sockets."""
    for url in ("http://localhost:1", "http://[::1]:1", "http://127.0.0.1:1", "unix:///s"):
        assert address_of(url).token == TOKEN
        assert address_of(url).kept == tmp_path / "server-token"


def test_a_replaced_token_is_sent_from_then_on(tmp_path: Path) -> None:
    """As by `serve --new-token`, for clients that outlive their server; a given one stays."""
    kept, given = address_of("unix:///s"), address_of("unix:///s", "given")
    (tmp_path / "server-token").write_text("another\n")
    assert kept.headers == {"Authorization": "Bearer another"}
    assert given.headers == {"Authorization": "Bearer given"}
    (tmp_path / "server-token").unlink()
    assert kept.headers == {"Authorization": "Bearer " + TOKEN}


def test_no_other_server_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server's token is given, or in the environment."""
    with pytest.raises(InvalidArgument, match="without its token"):
        address_of("https://host.example")
    monkeypatch.setenv("HOLDFAST_TOKEN", "of-the-environment")
    assert address_of("https://host.example").token == "of-the-environment"
    address_of("http://127.0.0.1:1").check()  # whoever is there: the caller chose it for that


def test_folders_are_not_urls() -> None:
    """A home is a path, or None."""
    assert not any(map(is_url, (None, "/home/x", "http", Path("/x"))))
    assert is_url("unix:///x")


STRANGER = 65534
TOKEN = "kept-in-this-home-0123456789"
LISTENS = """
import os, socket, sys
os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
opened = socket.create_server(("127.0.0.1", 0))
print(opened.getsockname()[1], flush=True)
while True:
    taken, _ = opened.accept()
    print(taken.recv(65536), flush=True)
    taken.close()
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has programs of another user")


class Stranger:
    """Program of a different user that listens on a port, and the bytes it received."""

    def __init__(self) -> None:
        words = [sys.executable, "-I", "-c", LISTENS, str(STRANGER)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def heard(self) -> bytes:
        """Return the received text, with one line of our own at its end."""
        with socket.create_connection(("127.0.0.1", self.port)) as mine:
            mine.sendall(b"the end")
        found = b""
        assert self._process.stdout
        while b"the end" not in found:
            found += self._process.stdout.readline()
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    made = Stranger()
    yield made
    made.end()


@as_root
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_stranger_on_the_port_does_not_get_the_token(stranger: Stranger, host: str) -> None:
    """Another user's listener is refused by name, before anything is sent."""
    url = f"http://{host}:{stranger.port}"

    async def ask() -> None:
        async with AsyncHoldfast(url) as hf:
            await hf.sessions()

    with pytest.raises(ServerUnavailable, match=rf"runs as user {STRANGER}\b") as refused:
        RemoteHoldfast(url).sessions()
    assert "HOLDFAST_TOKEN" in refused.value.hint
    with pytest.raises(ServerUnavailable, match=rf"runs as user {STRANGER}\b"):
        anyio.run(ask)
    with pytest.raises(ServerUnavailable, match=rf"runs as user {STRANGER}\b"):
        RemoteHoldfast(url).session("work").exec("true")
    assert TOKEN.encode() not in stranger.heard()


@as_root
def test_an_explicit_token_is_sent_to_any_server(stranger: Stranger) -> None:
    """The attack would succeed if nothing were looked up."""
    with pytest.raises(ServerUnavailable):
        RemoteHoldfast(f"http://127.0.0.1:{stranger.port}", token=TOKEN).sessions()
    assert TOKEN.encode() in stranger.heard()


@pytest.mark.parametrize(
    ("listens", "asked"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "::1"),
        ("::1", "localhost"),
        ("::", "127.0.0.1"),
        ("127.0.0.7", "127.0.0.7"),
    ],
)
def test_the_owner_of_a_listener_is_found(listens: str, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of a listener, on any address that answers for the requested one."""
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with closing(socket.socket(family)) as opened:
        if listens == "::":
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind((listens, 0))
        port = opened.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):  # it is bound, and does not listen
            client_address.check_port(asked, port)
        opened.listen()
        client_address.check_port(asked, port)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(ServerUnavailable, match=rf"runs as user {mine}\b"):
            client_address.check_port(asked, port)


def test_the_owner_is_found_where_the_kernel_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile can refuse netlink: the tables have the same facts."""

    def refused(patience: float) -> socket.socket:
        raise PermissionError(patience)

    monkeypatch.setattr(sock_diag, "opened", refused)
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        port = opened.getsockname()[1]
        client_address.check_port("127.0.0.1", port)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(ServerUnavailable, match=rf"runs as user {mine}\b"):
            client_address.check_port("localhost", port)


def test_a_listener_on_a_different_address_does_not_count() -> None:
    """The port alone does not identify it."""
    with closing(socket.create_server(("127.0.0.9", 0))) as opened, pytest.raises(ConnectionRefusedError):
        client_address.check_port("127.0.0.1", opened.getsockname()[1])


def test_a_unix_socket_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the file decides."""
    path = str(tmp_path / "s")
    with pytest.raises(FileNotFoundError):
        client_address.check_socket(path)
    with closing(socket.socket(socket.AF_UNIX)) as opened:
        opened.bind(path)
        client_address.check_socket(path)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(ServerUnavailable, match="runs as user"):
            client_address.check_socket(path)


def test_a_closed_port_is_reported_as_before(tmp_path: Path) -> None:
    """The message is an unreachable server's."""
    with closing(socket.socket()) as opened:
        opened.bind(("127.0.0.1", 0))
        with pytest.raises(ServerUnavailable, match=r"cannot reach the server .*refused"):
            RemoteHoldfast(f"http://127.0.0.1:{opened.getsockname()[1]}").sessions()
    with pytest.raises(ServerUnavailable, match="cannot reach the server"):
        RemoteHoldfast(f"unix://{tmp_path}/none").sessions()


def pauses(error: BaseException) -> list[float]:
    """Return the pauses between attempts that all fail so."""
    found: list[float] = []
    while (seconds := pause(len(found) + 1, error)) is not None:
        found.append(seconds)
    return found


def test_a_server_that_is_started_again_is_waited_for_some_twenty_seconds() -> None:
    """In pauses that grow up to five seconds."""
    found = pauses(ConnectionRefusedError())
    assert found == sorted(found)
    assert 18 < sum(found) < 25
    assert max(found) <= 5


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), OSError(113, "No route to host")])
def test_an_unreachable_server_is_given_up_sooner(error: BaseException) -> None:
    """After five to eight seconds."""
    assert 5 < sum(pauses(error)) < 8


def test_a_systems_report_of_a_closed_port_is_a_refusal(tmp_path: Path) -> None:
    """On one address, on all addresses of a name, and on a removed or abandoned socket."""
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


def test_a_refusal_by_some_addresses_alone_does_not_count() -> None:
    """One address without a route is out of reach."""
    mixed = OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 113] No route")
    assert not is_refusal(mixed)
