"""Where notices can be sent, and where not."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpcore
import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.notices.public_addresses import JudgedBackend, PublicAddresses

INNER = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "169.254.169.254",
    "10.1.2.3",
    "172.17.0.2",
    "192.168.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:5601:5601",
]


@pytest.mark.parametrize("address", INNER)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    """Loopback, links, metadata, private networks; and all forms of IPv6 in which they can be written."""
    assert not PublicAddresses().allow(address)


def test_public_and_allowed_addresses_are_reached() -> None:
    """One network of the owner opens no other."""
    assert PublicAddresses().allow("93.184.216.34")
    assert PublicAddresses().allow("2606:4700::1111")
    allowed = PublicAddresses(["10.0.0.0/8", "::1"])
    assert allowed.allow("10.255.0.1")
    assert allowed.allow("::1")
    assert allowed.allow("::ffff:10.0.0.1")
    assert not allowed.allow("127.0.0.1")
    assert not allowed.allow("169.254.169.254")
    with pytest.raises(InvalidArgument, match="not a network"):
        PublicAddresses(["example.org"])


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.net/x",  # in the clear
        "https://127.0.0.1/",
        "https://[::1]:8443/",
        "https://[::ffff:169.254.169.254]/latest/meta-data",
        "https://user:secret@hooks.example.net/",
        "ftp://hooks.example.net/",
        "file:///etc/passwd",
        "unix:///run/docker.sock",
        "https:///path",
        "https://host:99999/",
        "https://ho st/",
        "https://host/\r\nX-Evil: 1",
        "https://h\u00f6st/",
        "",
    ],
)
def test_urls_to_which_nothing_is_sent(url: str) -> None:
    """Refused when someone subscribes, with a line that says why."""
    with pytest.raises(InvalidArgument, match="cannot send notices"):
        PublicAddresses().check(url)


def _reached(monkeypatch: pytest.MonkeyPatch, answers: list[str], backend: JudgedBackend) -> list[str]:
    """Return the addresses to which a connection went, for a name with these addresses."""
    went: list[str] = []

    async def lookup(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in answers]

    async def connect(self: Any, host: str, *_: Any, **__: Any) -> Any:
        went.append(host)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", lookup)
    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    asyncio.run(backend.connect_tcp("hooks.example.net", 443))
    return went


def test_the_judged_address_is_the_one_that_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is not looked up a second time, in which it could lead elsewhere."""
    assert _reached(monkeypatch, ["93.184.216.34"], JudgedBackend(PublicAddresses())) == ["93.184.216.34"]


@pytest.mark.parametrize("answers", [["127.0.0.1"], ["93.184.216.34", "169.254.169.254"], []])
def test_names_that_lead_inside_are_refused(monkeypatch: pytest.MonkeyPatch, answers: list[str]) -> None:
    """Also if only one of their addresses does."""
    with pytest.raises(httpcore.ConnectError, match="not a public address"):
        _reached(monkeypatch, answers, JudgedBackend(PublicAddresses()))


def test_nothing_crosses_the_internet_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL of http reaches the owner's networks alone."""
    addresses = PublicAddresses(["10.0.0.0/8"])
    clear = JudgedBackend(addresses, in_the_clear=True)
    assert _reached(monkeypatch, ["10.0.0.7"], clear) == ["10.0.0.7"]
    with pytest.raises(httpcore.ConnectError, match="in the clear"):
        _reached(monkeypatch, ["93.184.216.34"], clear)
