"""Which port of which sandbox a request is for."""

from __future__ import annotations

import pytest

from holdfast.runtime.e2b.ports.port_names import PortName, named

ONE = "6bd7a1f3c10e"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (f"3000-{ONE}.localhost:8420", PortName(ONE, 3000, b"localhost:8420")),
        (f"3000-{ONE}.LOCALHOST", PortName(ONE, 3000, b"localhost")),
        (f"80-{ONE}.sandboxes.example.org", PortName(ONE, 80, b"sandboxes.example.org")),
        (f"99999-{ONE}.localhost", PortName(ONE, 99999, b"localhost")),
        (f"{ONE}.localhost", None),
        (f"3000-{ONE}", None),
        (f"x-{ONE}.localhost", None),
        (f"3000-{ONE}_.localhost", None),
        ("localhost:8420", None),
        ("", None),
    ],
)
def test_names_of_hosts(host: str, expected: PortName | None) -> None:
    assert named({b"host": host.encode()}) == expected


def test_headers_say_it_where_the_name_does_not() -> None:
    """Not for the ports at which the server itself answers, as clients use them."""
    said = {b"host": b"localhost", b"e2b-sandbox-id": ONE.encode()}
    assert named(said | {b"e2b-sandbox-port": b"3000"}) == PortName(ONE, 3000)
    for port in (b"49983", b"49999", b"", b"x", b"-1", b"123456", b"3000 "):
        assert named(said | {b"e2b-sandbox-port": port}) is None
    assert named({b"host": b"localhost", b"e2b-sandbox-port": b"3000"}) is None
    other = said | {b"host": b"80-aaaaaaaaaaaa.localhost", b"e2b-sandbox-port": b"3000"}
    assert named(other) == PortName("aaaaaaaaaaaa", 80, b"localhost")


def test_which_ports_there_are() -> None:
    assert [PortName(ONE, port).possible for port in (0, 1, 65535, 65536)] == [False, True, True, False]
    assert [PortName(ONE, port).own for port in (49983, 49999, 49998)] == [True, True, False]
