"""Which routes lead out of a machine, from /proc/net/route."""

from __future__ import annotations

import pytest

from holdfast.base import way_to_internet

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def route(destination: str, gateway: str, flags: str, mask: str) -> str:
    return f"eth0\t{destination}\t{gateway}\t{flags}\t0\t0\t0\t{mask}\t0\t0\t0\n"


@pytest.mark.parametrize(
    ("routes", "out"),
    [
        ([], False),
        ([("000011AC", "00000000", "0001", "0000FFFF")], False),
        ([("00000000", "0101A8C0", "0003", "00000000")], True),
        ([("00000000", "00000000", "0001", "00000000")], True),
        ([("00000000", "00000000", "0200", "00000000")], False),
        ([("0000000A", "0101A8C0", "0003", "000000FF")], True),
    ],
)
def test_a_gateway_or_a_default_route_leads_out(routes: list[tuple[str, str, str, str]], out: bool) -> None:
    """Networks that are reached directly do not, nor do rejecting routes."""
    assert way_to_internet.leads_out(HEAD + "".join(route(*each) for each in routes)) == out
