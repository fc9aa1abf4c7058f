"""Networks that clients ask for, and lists in pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.connect_wire import NotOffered
from holdfast.runtime.e2b.control_bodies import ListQuery, NetworkBody, NetworkWish, network_wish, page
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow

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
        # What is on the internet is allowed already; addresses are kept for what may be denied later.
        (None, {"allowOut": ["example.com", "8.8.8.8", "8.8.8.0/24"]},
         NetworkWish("internet", (), ("8.8.8.8", "8.8.8.0/24"))),
        (None, {"denyOut": ["8.8.8.8", "10.0.0.1/8", "8.8.8.8/32", "::ffff:9.9.9.9"]},
         NetworkWish("internet", (), (), ("8.8.8.8", "10.0.0.0/8", "9.9.9.9"))),
        (None, {"denyOut": ["8.8.8.0/24"], "allowOut": ["8.8.8.8"]},
         NetworkWish("internet", (), ("8.8.8.8",), ("8.8.8.0/24",))),
        (None, {"denyOut": [ALL], "allowOut": ["1.1.1.1", "2606:4700::1111", "2600::/12"]},
         NetworkWish("internet", (), ("1.1.1.1", "[2606:4700::1111]", "[2600::/12]"), (ALL, "::/0"))),
        (False, {"allowOut": [ALL]}, NetworkWish("internet", (), (ALL,), (ALL, "::/0"))),
        (None, {"denyOut": ["::/0"], "allowOut": ["1.1.1.1", "Example.com"]},
         NetworkWish("domains", ("example.com",), ("1.1.1.1",))),
        (True, {"allowPublicTraffic": True}, NetworkWish("internet")),
        # What is said of ports must not open a closed snapshot.
        (None, {"allowPublicTraffic": False}, NetworkWish(None)),
        (None, {"allowPublicTraffic": True, "maskRequestHost": "localhost:${PORT}"}, NetworkWish(None)),
    ],
)  # fmt: skip
def test_sandbox_bodies_become_session_options(
    internet: bool | None, said: Any, expected: NetworkWish
) -> None:
    assert network_wish(internet, None if said is None else NetworkBody.model_validate(said)) == expected


@pytest.mark.parametrize(
    ("internet", "said", "why"),
    [
        (None, {"denyOut": ["8.8.8.8"], "allowOut": ["dns.google"]}, "only a gateway distinguishes names"),
        (False, {"allowOut": ["192.168.0.0/16"]}, "not on the internet"),
        (None, {"allowOut": ["::ffff:10.0.0.1"]}, "not on the internet"),
        (None, {"allowOut": ["10.0.0.0/8"]}, "not on the internet"),
        (None, {"allowOut": ["127.0.0.1"]}, "not on the internet"),
        (None, {"rules": {"example.com": []}}, "cannot set rules"),
        (None, {"egressProxy": {"address": "proxy:1080"}}, "cannot set egress_proxy"),
        (None, {"dnsServers": ["9.9.9.9"]}, "cannot set dns_servers"),
        (None, {"httpsPorts": [443]}, "cannot set https_ports"),
    ],
)
def test_unmatched_values_are_refused(internet: bool | None, said: Any, why: str) -> None:
    with pytest.raises(NotOffered, match=why):
        network_wish(internet, NetworkBody.model_validate(said))


def test_a_request_replaces_the_rules_of_this_wire() -> None:
    """Exceptions with a port belong to the session's maker on this machine, and stay."""
    kept = {"allow": ["10.0.0.1:5432", "9.9.9.9", "[fd00::1]:443"], "deny": ["0.0.0.0/0"]}
    wish = NetworkWish("internet", (), ("1.1.1.1",), ("8.8.8.8",))

    assert wish.options(kept) == {
        "domains": [],
        "allow": ["10.0.0.1:5432", "[fd00::1]:443", "1.1.1.1"],
        "deny": ["8.8.8.8"],
    }
    assert NetworkWish("none").closed.options({})["deny"] == [ALL, "::/0"]


@pytest.mark.parametrize("place", ["999.1.1.1", "1.2.3.4/99", "not an address"])
def test_invalid_networks_cannot_be_denied(place: str) -> None:
    with pytest.raises(InvalidArgument):
        network_wish(None, NetworkBody.model_validate({"denyOut": [place]}))


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def row(
    number: int,
    state: Any = "running",
    facts: SandboxFacts | None = None,
    *,
    of: bool = True,
    ended: bool = False,
) -> SessionRow:
    details = SessionDetails().plus(lifetime=Lifetime(ended=ended).as_dict())
    if of:
        details = details.plus(sandbox=(facts or SandboxFacts()).model_dump())
    made = NOON + timedelta(seconds=number // 2)  # some at the same instant
    return SessionRow(f"{number:012x}", f"s{number}", state, "image", made, details=details)


def query(
    metadata: str | None = None, *states: str, template: str | None = None, after: str | None = None
) -> Any:
    return ListQuery.parse(metadata, states, template, after)


def test_sessions_that_no_client_made_are_not_listed() -> None:
    assert query().fits(row(1))
    assert not query().fits(row(1, of=False))
    assert not query().fits(row(1, ended=True))


def test_states() -> None:
    assert query().fits(row(1, "suspended"))
    assert not query(None, "running").fits(row(1, "suspended"))
    assert query(None, "running,paused").fits(row(1, "suspended"))
    assert query(None, "paused", "running").fits(row(1))
    for state in ("dead", "creating", "removed"):
        assert not query().fits(row(1, state))
    with pytest.raises(InvalidArgument, match="state 'odd'"):
        query(None, "odd")


def test_metadata_is_quoted_twice() -> None:
    kept = {"a&b": "c d+é=1", "x": ""}
    quoted = urlencode({quote(key): quote(value) for key, value in kept.items()})
    assert query(quoted).fits(row(1, facts=SandboxFacts(metadata={**kept, "more": "y"})))
    assert not query(quoted).fits(row(1, facts=SandboxFacts(metadata={"x": ""})))


def test_template_and_time() -> None:
    assert query(template="base").fits(row(1))
    assert not query(template="other").fits(row(1))
    assert query(after="2030-01-01T11:00:00Z").fits(row(1))
    assert not query(after="2030-01-01T15:00:00+01:00").fits(row(1))
    with pytest.raises(InvalidArgument, match="not a time"):
        query(after="soon")


@pytest.mark.parametrize("oldest_first", [True, False])
def test_pages_have_each_row_once_although_others_come_and_go(oldest_first: bool) -> None:
    rows = [row(number) for number in range(10)]
    seen, token = [], None
    while True:
        found = page(rows, 3, token, oldest_first=oldest_first)
        seen += [each.id for each in found.rows]
        if not found.next_token:
            break
        token = found.next_token
        rows.remove(found.rows[-1])  # the token's own row is gone
        rows = rows[::-1]
    expected = [f"{number:012x}" for number in range(10)]
    assert seen == (expected if oldest_first else expected[::-1])


@pytest.mark.parametrize(("limit", "token"), [(0, None), (101, None), (1, "%%%"), (1, "é"), (1, "bm9uZQ")])
def test_invalid_limits_and_tokens_are_refused(limit: int, token: str | None) -> None:
    with pytest.raises(InvalidArgument):
        page([row(1)], limit, token, oldest_first=True)
