"""Which texts are servers, and where their tokens come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.client.client_address import address_of, is_url


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    (tmp_path / "server-token").write_text("kept-here\n")


@pytest.mark.parametrize(
    ("url", "base", "channels", "socket"),
    [
        ("http://127.0.0.1:8420", "http://127.0.0.1:8420", "ws://127.0.0.1:8420/v1/channels", None),
        ("https://host.example/", "https://host.example", "wss://host.example/v1/channels", None),
        ("unix:///run/s.sock", "http://localhost", "ws://localhost/v1/channels", "/run/s.sock"),
    ],
)
def test_servers(url: str, base: str, channels: str, socket: str | None) -> None:
    found = address_of(url, "given")
    assert (found.url, found.channels, found.socket) == (base, channels, socket)
    assert found.headers == {"Authorization": "Bearer given"}


@pytest.mark.parametrize(
    "url",
    ["http://", "ftp://host", "http://host/v1", "http://me:pw@host", "http://host?x", "unix://rel", "host:1"],
)
def test_others(url: str) -> None:
    with pytest.raises(InvalidArgument, match="not the URL of a server"):
        address_of(url, "given")


def test_the_token_of_this_machine_is_in_the_home(tmp_path: Path) -> None:
    for url in ("http://localhost:1", "http://[::1]:1", "http://127.0.0.1:1", "unix:///s"):
        assert address_of(url).token == "kept-here"
        assert address_of(url).kept == tmp_path / "server-token"


def test_one_that_is_replaced_there_is_sent_from_then_on(tmp_path: Path) -> None:
    """As by `serve --new-token`, for clients that outlive their server; a given one stays."""
    kept, given = address_of("unix:///s"), address_of("unix:///s", "given")
    (tmp_path / "server-token").write_text("another\n")
    assert kept.headers == {"Authorization": "Bearer another"}
    assert given.headers == {"Authorization": "Bearer given"}
    (tmp_path / "server-token").unlink()
    assert kept.headers == {"Authorization": "Bearer kept-here"}


def test_no_other_server_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="without its token"):
        address_of("https://host.example")
    monkeypatch.setenv("HOLDFAST_TOKEN", "of-the-environment")
    assert address_of("https://host.example").token == "of-the-environment"
    address_of("http://127.0.0.1:1").check()  # whoever is there: the caller chose it for that


def test_folders_are_no_urls() -> None:
    assert not any(map(is_url, (None, "/home/x", "http", Path("/x"))))
    assert is_url("unix:///x")
