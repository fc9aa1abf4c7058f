"""The effect of a change of a session's network on its options, and its display."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli.session_verbs import network_lines
from holdfast.runtime.egress.attempt_log import Refusal
from holdfast.runtime.egress.network_changes import Reach, carried, changed
from holdfast.runtime.sessions.session_options import SessionOptions

GIVEN = SessionOptions.parse(allow=["10.0.0.1:80", "db.internal:5432"], memory="1g").model_dump(mode="json")


def test_a_change_only_concerns_the_network() -> None:
    """Each exception once, in canonical form; everything else unchanged."""
    found = changed(
        GIVEN, network="open", allow=["DB.internal:5432", "10.0.0.2:80"], disallow=["10.0.0.1:80"]
    )

    assert found == {**GIVEN, "network": "open", "allow": ["db.internal:5432", "10.0.0.2:80"]}
    assert changed(GIVEN) == GIVEN


def test_denials_are_added_and_lifted() -> None:
    """Each once, in canonical form; they outlast a network that is taken away."""
    found = changed(GIVEN, deny=["1.1.1.1/32", "10.0.0.1/8", "1.1.1.1"])

    assert found == {**GIVEN, "deny": ["1.1.1.1", "10.0.0.0/8"]}
    assert changed(found, no_deny=["1.1.1.1"], deny=["[fd00::1]"])["deny"] == ["10.0.0.0/8", "fd00::1"]
    assert changed(found, network="none")["deny"] == found["deny"]
    assert carried(found, GIVEN)["deny"] == found["deny"]


def test_without_a_network_there_are_no_exceptions() -> None:
    """Existing ones are dropped; new ones are refused."""
    assert changed(GIVEN, network="none")["allow"] == []
    with pytest.raises(InvalidArgument, match="without a network"):
        changed(GIVEN, network="none", allow=["10.0.0.1:80"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"disallow": ["10.0.0.2:80"]}, "it is not an exception of this session"),
        ({"disallow": ["10.0.0.1:80"], "allow": ["10.0.0.1:80"]}, "both allow and disallow"),
        ({"allow": ["nowhere"]}, "it is not HOST:PORT"),
        ({"network": "host"}, "network"),
        ({"deny": ["example.org"]}, "neither an address nor a network"),
        ({"no_deny": ["1.1.1.1"]}, "this session does not have it"),
        ({"deny": ["1.1.1.1"], "no_deny": ["1.1.1.1"]}, "this session does not have it"),
        ({"deny": [f"1.1.1.{last}" for last in range(101)]}, "deny"),
        ({"allow": [f"10.0.0.1:{port}" for port in range(1, 102)]}, "allow"),
    ],
)
def test_impossible_changes_are_refused(change: dict[str, Any], why: str) -> None:
    """With an explanation."""
    with pytest.raises(InvalidArgument, match=r"^cannot ") as told:
        changed(GIVEN, **change)
    assert why in str(told.value)


def test_a_rewind_opens_nothing_that_was_closed_since() -> None:
    """The rest is the snapshot's."""
    snapshot = {**GIVEN, "memory": 2 << 30}
    session = changed(GIVEN, network="internet", disallow=["10.0.0.1:80", "db.internal:5432"])

    assert carried(session, snapshot) == {**session, "memory": 2 << 30}


def test_the_display_has_a_line_for_each_entry() -> None:
    """An address of IPv6 in brackets; a protocol without ports has none; the longest list is cut."""
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    refused = [
        Refusal("fd00::1", "tcp", 443, 1, 0.0, now.timestamp() - 5),
        Refusal("10.0.0.7", "icmp", 0, 2, 0.0, now.timestamp() - 60),
    ]
    reached = Reach(
        "internet", ("10.0.0.1:80",), (), ("10.0.0.53",), tuple(refused), deny=("1.1.1.1", "::/0")
    )

    assert network_lines(reached, now) == [
        "reaches   the internet, but not the host or its private networks",
        "denied    1.1.1.1, ::/0",
        "allowed   10.0.0.1:80",
        "names by  10.0.0.53",
        "refused   tcp [fd00::1]:443, 1 packet, last 5 s ago",
        "refused   icmp 10.0.0.7, 2 packets, last 1 min ago",
    ]
    many = Reach("open", (), (), (), tuple(refused * 20), refused_more=True)
    assert len(network_lines(many, now)) == 1 + 20 + 2
    assert network_lines(many, now)[-2].strip() == "and 20 more destinations; --json lists them"
