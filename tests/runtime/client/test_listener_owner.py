"""The token that a home keeps goes to programs of its user only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from holdfast.errors import ServerUnavailable
from holdfast.procfs import sock_diag
from holdfast.runtime.client import listener_owner
from holdfast.runtime.client.aio.async_holdfast import AsyncHoldfast
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast

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


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    (tmp_path / "server-token").write_text(f"{TOKEN}\n")


class Stranger:
    """A program of another user that listens on a port, and what it has been sent."""

    def __init__(self) -> None:
        words = [sys.executable, "-I", "-c", LISTENS, str(STRANGER)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def heard(self) -> bytes:
        """Return what came, with one line of our own at its end."""
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
def test_a_stranger_who_has_the_port_does_not_get_the_token(stranger: Stranger, host: str) -> None:
    url = f"http://{host}:{stranger.port}"

    async def ask() -> None:
        async with AsyncHoldfast(url) as hf:
            await hf.sessions()

    with pytest.raises(ServerUnavailable, match=rf"a program of user {STRANGER}\b") as refused:
        RemoteHoldfast(url).sessions()
    assert "HOLDFAST_TOKEN" in refused.value.hint
    with pytest.raises(ServerUnavailable, match=rf"a program of user {STRANGER}\b"):
        anyio.run(ask)
    with pytest.raises(ServerUnavailable, match=rf"a program of user {STRANGER}\b"):
        RemoteHoldfast(url).session("work").exec("true")
    assert TOKEN.encode() not in stranger.heard()


@as_root
def test_one_that_is_given_is_sent_to_any(stranger: Stranger) -> None:
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
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with closing(socket.socket(family)) as opened:
        if listens == "::":
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind((listens, 0))
        port = opened.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):  # it is bound, and does not listen
            listener_owner.check(asked, port)
        opened.listen()
        listener_owner.check(asked, port)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(ServerUnavailable, match=rf"a program of user {mine}\b"):
            listener_owner.check(asked, port)


def test_the_owner_is_found_where_the_kernel_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile may refuse netlink: the tables say it as well."""

    def refused(patience: float) -> socket.socket:
        raise PermissionError(patience)

    monkeypatch.setattr(sock_diag, "opened", refused)
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        port = opened.getsockname()[1]
        listener_owner.check("127.0.0.1", port)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(ServerUnavailable, match=rf"a program of user {mine}\b"):
            listener_owner.check("localhost", port)


def test_a_listener_on_another_address_is_none() -> None:
    with closing(socket.create_server(("127.0.0.9", 0))) as opened, pytest.raises(ConnectionRefusedError):
        listener_owner.check("127.0.0.1", opened.getsockname()[1])


def test_a_unix_socket_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "s")
    with pytest.raises(FileNotFoundError):
        listener_owner.check_socket(path)
    with closing(socket.socket(socket.AF_UNIX)) as opened:
        opened.bind(path)
        listener_owner.check_socket(path)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(ServerUnavailable, match="is a program of user"):
            listener_owner.check_socket(path)


def test_nothing_that_listens_is_told_as_ever(tmp_path: Path) -> None:
    with closing(socket.socket()) as opened:
        opened.bind(("127.0.0.1", 0))
        with pytest.raises(ServerUnavailable, match=r"cannot reach the server .*refused"):
            RemoteHoldfast(f"http://127.0.0.1:{opened.getsockname()[1]}").sessions()
    with pytest.raises(ServerUnavailable, match="cannot reach the server"):
        RemoteHoldfast(f"unix://{tmp_path}/none").sessions()
