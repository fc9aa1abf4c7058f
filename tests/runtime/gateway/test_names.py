"""Names in canonical form, and the names a domain covers."""

from __future__ import annotations

import pytest

from holdfast.runtime.gateway.names import Domain, canonical


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("API.Example.com.", "api.example.com"),
        ("[::FFFF:127.0.0.1]", "127.0.0.1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("[FD00::0:1]", "fd00::1"),
        ("_dmarc.example.org", "_dmarc.example.org"),
    ],
)
def test_a_host_has_one_form(written: str, name: str) -> None:
    """Other spellings mean the same host."""
    assert canonical(written) == name


@pytest.mark.parametrize(
    "written",
    ["", ".", "2130706433", "127.1", "0x7f.1", "0177.0.0.1", "1.2.3.4.", "fe80::1%eth0", "a b", "a/b", "a..b",
     "é.example", "a\r\nb", "[::1", "*.a", "a@b", "a" * 64 + ".b", "%31"],
)  # fmt: skip
def test_ambiguous_names_are_refused(written: str) -> None:
    """Above all addresses in disguise."""
    with pytest.raises(ValueError, match="not a valid host name"):
        canonical(written)


@pytest.mark.parametrize(
    ("domain", "host", "port", "covered"),
    [
        ("api.example.com", "api.example.com", 443, True),
        ("api.example.com", "api.example.com", 80, True),
        ("api.example.com", "api.example.com", 22, False),
        ("api.example.com:22", "api.example.com", 22, True),
        ("api.example.com:22", "api.example.com", 443, False),
        ("api.example.com", "x.api.example.com", 443, False),
        ("api.example.com", "api.example.com.evil.org", 443, False),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "badexample.com", 443, False),
        ("*.example.com", "a.example.com.evil.org", 443, False),
    ],
)
def test_a_domain_covers_itself_or_the_names_below(domain: str, host: str, port: int, covered: bool) -> None:
    """On the ports of the web, or its own."""
    assert Domain.parse(domain).covers(host, port) is covered


@pytest.mark.parametrize(
    "text", ["*", "*.", "10.0.0.1", "[::1]:80", "a.*.b", "**.a", "a:0", "a:99999", "http://a"]
)
def test_an_invalid_domain_is_refused(text: str) -> None:
    """A star is for all names below one."""
    with pytest.raises(ValueError, match=r"it is|its port"):
        Domain.parse(text)
