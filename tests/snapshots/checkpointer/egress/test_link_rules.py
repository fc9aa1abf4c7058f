"""The rules at a container's links: nft's input, and the checks of its result."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.egress import link_rules
from holdfast.snapshots.checkpointer.egress.link_rules import Link
from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules, Opening

RULES = NetworkRules(
    refused=(ip_network("10.0.0.0/8"), ip_network("10.1.0.0/16"), ip_network("fc00::/7")),
    opened=(Opening(ip_network("10.0.0.53/32"), 53), Opening(ip_network("fd00::1/128"))),
)
LINK = Link("eth0", "02:42:ac:12:00:02", IPv4Address("172.18.0.2"))
COMMENTS = (
    *("hardware of its own", "own resolution", "no other protocol", "source of its own", "no options"),
    *("known protocols", "open 10.0.0.53/32 53", "refused4", "internet"),
)


def listed(**changes: Any) -> dict[str, Any]:
    chain = {"name": "egresseth0", "hook": "egress", "policy": "drop", "dev": "eth0", **changes}
    rules = [{"rule": {"chain": "egresseth0", "comment": comment}} for comment in COMMENTS]
    return {"nftables": [{"metainfo": {}}, {"chain": chain}, *rules]}


def test_every_frame_is_judged_by_the_addresses_of_its_link() -> None:
    text = link_rules.text(RULES, [LINK])
    assert 'hook egress device "eth0" priority 0; policy drop;' in text
    for line in (
        "ether saddr != 02:42:ac:12:00:02 drop",
        "ether type arp arp saddr ether 02:42:ac:12:00:02 arp saddr ip 172.18.0.2 accept",
        "ip saddr != 172.18.0.2 drop",
        "ip daddr 10.0.0.53/32 ip protocol { tcp, udp } th dport 53 accept",
        "elements = { 10.0.0.0/8 };",
    ):
        assert line in text
    assert text.index("dport 53") < text.index("@refused4 drop") < text.index('accept comment "internet"')


def test_denied_names_leave_no_link() -> None:
    """Except for its allowed part, and only if it is not refused for other reasons."""
    rules = replace(RULES, denied=(ip_network("0.0.0.0/0"),), allowed=(ip_network("1.1.1.1/32"),))
    text = link_rules.text(rules, [LINK])

    assert "set denied4 { type ipv4_addr; flags interval; elements = { 0.0.0.0/0 }; }" in text
    assert "set allowed4 { type ipv4_addr; flags interval; elements = { 1.1.1.1/32 }; }" in text
    judged = "ip daddr @denied4 ip daddr != @allowed4 drop"
    assert text.index("@refused4 drop") < text.index(judged) < text.index('accept comment "internet"')
    assert link_rules.wrong(listed(), rules, [LINK]) == "the link eth0 does not have the given rules"


def test_a_link_without_an_address_sends_nothing() -> None:
    assert "accept" not in link_rules.text(RULES, [Link("eth1", "02:00:00:00:00:01", None)])


def test_rules_that_are_not_in_force_are_noticed() -> None:
    assert link_rules.wrong(listed(), RULES, [LINK]) is None
    assert link_rules.wrong(listed(dev=["eth0"]), RULES, [LINK]) is None
    for changes in ({"policy": "accept"}, {"hook": "ingress"}, {"dev": "eth1"}, {"name": "other"}):
        assert link_rules.wrong(listed(**changes), RULES, [LINK]) == "the rules do not cover the link eth0"
    fewer = {"nftables": listed()["nftables"][:-2]}
    assert link_rules.wrong(fewer, RULES, [LINK]) == "the link eth0 does not have the given rules"


@pytest.mark.parametrize("listing", [{}, {"nftables": None}, {"nftables": [1, {}]}])
def test_a_missing_listing_means_missing_rules(listing: dict[str, object]) -> None:
    assert link_rules.wrong(listing, RULES, [LINK]) is not None
