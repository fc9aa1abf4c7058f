"""Which networks of sandboxes a session can have; the others are refused, not made wider or narrower."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.control.network_wishes import NetworkBody, NetworkWish, wish
from holdfast.runtime.e2b.e2b_errors import NotOffered

ALL = "0.0.0.0/0"


@pytest.mark.parametrize(
    ("internet", "said", "expected"),
    [
        (None, None, NetworkWish(None)),
        (True, None, NetworkWish("internet")),
        (False, None, NetworkWish("none")),
        (None, {"denyOut": [ALL]}, NetworkWish("none")),
        (True, {"denyOut": [ALL]}, NetworkWish("none")),
        (False, {"allowOut": ["example.com", "*.example.org", "example.com"]},
         NetworkWish("domains", ("example.com", "*.example.org"))),
        (None, {"denyOut": [ALL], "allowOut": ["example.com"]}, NetworkWish("domains", ("example.com",))),
        # What is on the internet is allowed already.
        (None, {"allowOut": ["example.com", "8.8.8.8", "8.8.8.0/24"]}, NetworkWish("internet")),
        (True, {"allowPublicTraffic": True}, NetworkWish("internet")),
        # What is said of ports must not open a closed snapshot.
        (None, {"allowPublicTraffic": False}, NetworkWish(None)),
        (None, {"allowPublicTraffic": True, "maskRequestHost": "localhost:${PORT}"}, NetworkWish(None)),
    ],
)  # fmt: skip
def test_what_fits_a_session(internet: bool | None, said: Any, expected: NetworkWish) -> None:
    assert wish(internet, None if said is None else NetworkBody.model_validate(said)) == expected


@pytest.mark.parametrize(
    ("internet", "said", "why"),
    [
        (None, {"denyOut": ["8.8.8.8"]}, "cannot deny 8.8.8.8 alone"),
        (False, {"allowOut": ["8.8.8.8"]}, "on all ports"),
        (None, {"allowOut": ["10.0.0.0/8"]}, "not on the internet"),
        (None, {"allowOut": ["127.0.0.1"]}, "not on the internet"),
        (None, {"rules": {"example.com": []}}, "cannot set rules"),
        (None, {"egressProxy": {"address": "proxy:1080"}}, "cannot set egress_proxy"),
        (None, {"dnsServers": ["9.9.9.9"]}, "cannot set dns_servers"),
        (None, {"httpsPorts": [443]}, "cannot set https_ports"),
    ],
)
def test_what_fits_none_is_refused(internet: bool | None, said: Any, why: str) -> None:
    with pytest.raises(NotOffered, match=why):
        wish(internet, NetworkBody.model_validate(said))


@pytest.mark.parametrize("place", ["999.1.1.1", "1.2.3.4/99", "not an address"])
def test_what_is_no_network_cannot_be_denied(place: str) -> None:
    with pytest.raises(InvalidArgument):
        wish(None, NetworkBody.model_validate({"denyOut": [place]}))
