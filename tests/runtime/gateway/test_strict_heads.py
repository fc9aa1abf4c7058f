"""Heads of requests that readers find different requests in are known by their bytes."""

from __future__ import annotations

import pytest

from holdfast.runtime.gateway.strict_heads import ambiguity

GOOD = (b"GET", "/caf\xe9?a=%20".encode(), b"HTTP/1.1")
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"Host", b"example.com"),
    (b"X-A", b"a\tb \xc3\xa9"),
    (b"X-A", b""),
)


def test_usual_heads_are_not_ambiguous() -> None:
    assert ambiguity(*GOOD, HEADERS) is None
    assert ambiguity(b"M-SEARCH", b"*", b"HTTP/1.0", ()) is None


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/1.1\n", b""])
def test_other_versions(version: bytes) -> None:
    assert "version" in str(ambiguity(GOOD[0], GOOD[1], version, HEADERS))


@pytest.mark.parametrize("letter", [b"\0", b"\r", b"\n", b"\x0b", b"\x7f", b"\x1f"])
def test_controls_are_refused_wherever_they_are(letter: bytes) -> None:
    for head in (
        (b"GE" + letter, GOOD[1], GOOD[2], HEADERS),
        (GOOD[0], b"/a" + letter, GOOD[2], HEADERS),
        (*GOOD, ((b"X" + letter, b"a"),)),
        (*GOOD, ((b"X", b"a" + letter + b"b"),)),
    ):
        assert "is not allowed" in str(ambiguity(*head))
    for head in ((b"", GOOD[1], GOOD[2], ()), (GOOD[0], b"a b", GOOD[2], ()), (*GOOD, ((b"X ", b"a"),))):
        assert "is not allowed" in str(ambiguity(*head))


@pytest.mark.parametrize("name", [b"Host", b"Content-Length", b"Transfer-Encoding"])
def test_deciding_headers_come_once(name: bytes) -> None:
    """Even if both are equal: readers differ in which of them they take."""
    given = ((name, b"5"), (name.upper(), b"5"))
    assert str(ambiguity(*GOOD, given)) == f"it has {name.decode().lower()} twice"
