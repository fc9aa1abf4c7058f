"""Exceptions a user can open, as text, and their effect."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.sessions import network_exceptions
from holdfast.runtime.sessions.network_exceptions import Allowed
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.snapshots.checkpointer.egress.netrules import Opening


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("db.internal:5432", "db.internal:5432"),
        ("DB.Internal.:5432", "db.internal:5432"),
        ("10.1.2.3:80", "10.1.2.3:80"),
        ("10.1.2.3/8:80", "10.0.0.0/8:80"),
        ("[fd00::0001]:443", "[fd00::1]:443"),
        ("[fd00::/16]:443", "[fd00::/16]:443"),
        ("some_host:1", "some_host:1"),
        ("1.1.1.1", "1.1.1.1"),
        ("1.1.1.1/24", "1.1.1.0/24"),
        ("[2606:4700::1111]", "[2606:4700::1111]"),
        ("[2600::/12]", "[2600::/12]"),
        ("[::ffff:1.1.1.1]", "1.1.1.1"),
    ],
)
def test_items_are_normalized(text: str, normal: str) -> None:
    """Equal ones are equal texts, and a text is read back unchanged."""
    assert str(Allowed.parse(text)) == normal
    assert Allowed.parse(normal) == Allowed.parse(text)


def test_a_link_without_a_port_opens_nothing() -> None:
    """It stays an allowed part of a denied network."""
    found, unknown = network_exceptions.openings([Allowed.parse("10.0.0.0/8")], lambda _: ["1.1.1.1"])

    assert (found, unknown) == ([], [])
    assert Allowed.parse("10.0.0.0/8").undenied == ip_network("10.0.0.0/8")
    assert Allowed.parse("10.0.0.0/8:80").undenied is None


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("1.1.1.1", "1.1.1.1"),
        (" 10.1.2.3/8", "10.0.0.0/8"),
        ("[fd00::1]", "fd00::1"),
        ("fd00::/8", "fd00::/8"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:1.1.1.1", "1.1.1.1"),
    ],
)
def test_denied_networks_are_normalized(text: str, normal: str) -> None:
    """An IPv4-mapped one is of IPv4, as its packets are."""
    assert network_exceptions.denied_texts([text, normal]) == (normal,)


@pytest.mark.parametrize("text", ["", "host", "1.1.1.1:80", "[fd00::1]:80", "fe80::1%eth0", "10.0.0.0/33"])
def test_only_addresses_and_networks_are_denied(text: str) -> None:
    """Names change their addresses, and denials do not have ports."""
    with pytest.raises(InvalidArgument, match=r"^cannot deny .* neither an address nor a network"):
        network_exceptions.denied(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":80",
        "host:0",
        "host:65536",
        "host:http",
        "host:80:90",
        "fd00::1:443",
        "fd00::1",
        "[1.1.1.1]",
        "[fe80::1%eth0]",
        "1.1.1",
        "[host]:80",
        "[10.0.0.1]:80",
        "[fe80::1%eth0]:80",
        "1.2.3:80",
        "10.0.0.0/33:80",
        "ho st:80",
        "-host:80",
        "host..x:80",
        "http://host:80",
        f"{'a' * 254}:80",
    ],
)
def test_invalid_items_are_refused_in_one_line(text: str) -> None:
    """With the valid forms."""
    with pytest.raises(InvalidArgument, match=r"^cannot allow '[^\n]*$"):
        Allowed.parse(text)


def test_a_name_opens_its_addresses_and_nothing_if_it_has_none() -> None:
    """IPv4 and IPv6, each once; a name without any is reported separately."""
    known = {"both": ["10.0.0.1", "fd00::1", "10.0.0.1"]}
    items = [Allowed.parse(text) for text in ("both:80", "gone:80", "10.0.0.0/8:443")]

    found, unknown = network_exceptions.openings(items, lambda name: known.get(name, []))

    assert found == [
        Opening(ip_network("10.0.0.1/32"), 80),
        Opening(ip_network("fd00::1/128"), 80),
        Opening(ip_network("10.0.0.0/8"), 443),
    ]
    assert unknown == ["gone"]


def test_the_choice_survives_the_store() -> None:
    """Also the choice of earlier versions, whose only kind of network had a different name."""
    chosen = SessionOptions.parse(network="open", allow=["HOST:80", "[fd00::1]:443"])

    assert SessionOptions.parse(**chosen.model_dump(mode="json")) == chosen
    assert SessionOptions.parse(network="default") == SessionOptions()
    assert SessionOptions().network == "internet"


@pytest.mark.parametrize(
    "given",
    [{"network": "none", "allow": ["a:1"]}, {"allow": ["a"]}, {"allow": ["a:1"] * 101}, {"allow": [1]}],
)
def test_invalid_choices_are_one_line(given: dict[str, Any]) -> None:
    """Without a network nothing of it can be allowed."""
    with pytest.raises(InvalidArgument, match=r"^cannot [^\n]+$"):
        SessionOptions.parse(**given)
