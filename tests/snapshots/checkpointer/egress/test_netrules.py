"""The rules for a session's network: nft's input, the socket's limits, the checks of the result."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from holdfast.runtime.gateway import session_rules as places
from holdfast.snapshots.checkpointer.egress import netrules
from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules, Opening

RULES = NetworkRules(
    refused=(ip_network("10.0.0.0/8"), ip_network("10.1.0.0/16"), ip_network("fc00::/7")),
    opened=(Opening(ip_network("10.0.0.53/32"), 53), Opening(ip_network("fd00::1/128"))),
    callers=(ip_address("172.18.0.1"),),
)


def listed(rules: NetworkRules) -> dict[str, Any]:
    """The relevant part of nft's list once these rules are set."""

    def rule(chain: str, comment: str, verdict: str) -> dict[str, Any]:
        return {"rule": {"chain": chain, "comment": comment, "expr": [{"match": {}}, {verdict: None}]}}

    def chain(hook: str) -> dict[str, Any]:
        return {"chain": {"name": hook, "type": "filter", "hook": hook, "policy": "drop"}}

    def recorded(name: str) -> dict[str, Any]:
        return {"set": {"name": name, "size": 128, "timeout": 3600, "flags": ["timeout", "dynamic"]}}

    honest = ("source of its own", "no options", "no extension headers", "known protocols")
    opened = [rule("output", f"open {one}", "accept") for one in rules.opened]
    callers = [rule("input", f"caller {address}", "accept") for address in rules.callers]
    return {
        "nftables": [
            {"metainfo": {"json_schema_version": 1}},
            {"set": {"name": "refused4", "elem": [{"prefix": {"addr": "10.0.0.0", "len": 8}}]}},
            {"set": {"name": "refused6", "elem": [{"prefix": {"addr": "fc00::", "len": 7}}]}},
            *(
                {
                    "set": {
                        "name": f"{name}{version}",
                        "elem": [str(one[0]) for one in found if one.version == version],
                    }
                }
                for name, found in (("denied", rules.denied), ("allowed", rules.allowed))
                for version in (4, 6)
                if rules.denied
            ),
            *map(recorded, ("attempts4", "attempts6")),
            *map(chain, ("output", "input", "forward")),
            *(
                rule("record", f"{name} {which}", "set")
                for name in ("attempts4", "attempts6")
                for which in ("by port", "without port")
            ),
            rule("discard", "record", "jump"),
            rule("discard", "discard", "drop"),
            rule("refuse", "record", "jump"),
            rule("refuse", "refuse tcp", "reject"),
            rule("refuse", "refuse", "reject"),
            rule("output", "engine resolver", "goto"),
            rule("output", "loopback", "accept"),
            rule("output", "neighbours", "accept"),
            *(rule("output", name, "goto") for name in honest),
            *(rule("output", f"replies {address}", "accept") for address in rules.callers),
            *opened,
            rule("output", "refused4", "goto"),
            rule("output", "refused6", "goto"),
            *(rule("output", f"denied{version}", "goto") for version in (4, 6) if rules.denied),
            rule("output", "internet", "accept"),
            *(rule("input", name, "accept") for name in ("loopback", "replies", "neighbours")),
            *callers,
        ]
    }


def test_one_transaction_replaces_what_was_there() -> None:
    """The table is made if it is missing, emptied, and filled; networks within others are left out."""
    said = netrules.text(RULES)

    assert said.startswith("table inet holdfast\ndelete table inet holdfast\ntable inet holdfast {\n")
    assert "elements = { 10.0.0.0/8 };" in said
    assert "elements = { fc00::/7 };" in said


def test_the_order_is_that_of_the_verdicts() -> None:
    """The engine's resolver is refused although it is loopback; opened addresses precede refused ones."""
    said = netrules.text(RULES)
    order = [
        "ip daddr 127.0.0.11 goto refuse",
        'oif "lo" accept',
        "nd-neighbor-advert } accept",
        "fib saddr . oif type != local goto discard",
        "ip hdrlength != 5 goto discard",
        "ip6 nexthdr != { tcp, udp, ipv6-icmp } goto discard",
        "meta l4proto != { tcp, udp, icmp, ipv6-icmp } goto refuse",
        "ct direction reply",
        "ip daddr 10.0.0.53/32 meta l4proto { tcp, udp } th dport 53 accept",
        "ip6 daddr fd00::1/128 accept",
        "ip daddr @refused4 goto refuse",
        "ip6 daddr @refused6 goto refuse",
        "meta nfproto { ipv4, ipv6 } accept",
    ]

    places = [said.index(text) for text in order]

    assert places == sorted(places)
    assert said.count("policy drop;") == 3


DENYING = replace(
    RULES,
    denied=tuple(map(ip_network, ("8.8.8.8", "1.1.1.1", "2600::1"))),
    allowed=(ip_network("1.1.1.1"),),
)


def test_denials_come_after_the_fixed_refusals() -> None:
    """Thus what is allowed of it opens nothing else. Without any, sets and rules for it are left out."""
    said = netrules.text(DENYING)
    order = [
        "ip6 daddr fd00::1/128 accept",
        "ip6 daddr @refused6 goto refuse",
        "ip daddr @denied4 ip daddr != @allowed4 goto refuse",
        "ip6 daddr @denied6 ip6 daddr != @allowed6 goto refuse",
        "meta nfproto { ipv4, ipv6 } accept",
    ]

    places = [said.index(text) for text in order]

    assert places == sorted(places)
    assert "set denied4 { type ipv4_addr; flags interval; elements = { 1.1.1.1/32, 8.8.8.8/32 }; }" in said
    assert "set allowed6 { type ipv6_addr; flags interval;  }" in said
    assert not {"denied", "allowed"} & set(netrules.text(RULES).split())


def test_denials_that_are_not_in_force_are_noticed() -> None:
    """A rule or an element that is missing, and an exception that was not given."""
    assert netrules.wrong(listed(DENYING), DENYING) is None
    assert netrules.wrong(listed(RULES), DENYING) == "set denied4 differs from the given one"
    assert netrules.wrong(listed(DENYING), RULES) == "chain output does not have the given rules"
    wider = replace(DENYING, allowed=(*DENYING.allowed, ip_network("8.8.8.8")))
    assert netrules.wrong(listed(wider), DENYING) == "set allowed4 differs from the given one"


def test_an_empty_set_has_no_elements() -> None:
    """nft refuses an empty list."""
    assert "elements" not in netrules.text(NetworkRules())


def test_rules_survive_the_socket() -> None:
    """The checkpointer understands the host's rules."""
    for rules in (RULES, DENYING):
        assert netrules.parsed(json.loads(json.dumps(rules.as_dict()))) == rules


@pytest.mark.parametrize(
    "change",
    [
        {"refused": "10.0.0.0/8"},
        {"refused": ["10.0.0.0/8; flush ruleset"]},
        {"refused": ["10.0.0.1/8"]},
        {"refused": [10]},
        {"refused": ["10.0.0.0/8"] * 513},
        {"opened": [{"network": "10.0.0.1/32"}]},
        {"opened": [{"network": "10.0.0.1/32", "port": 0}]},
        {"opened": [{"network": "10.0.0.1/32", "port": True}]},
        {"opened": [{"network": "10.0.0.1/32", "port": "53 accept"}]},
        {"opened": [{"network": "fe80::1%eth0", "port": 53}]},
        {"denied": ["8.8.8.8/32; flush ruleset"]},
        {"allowed": "0.0.0.0/0"},
        {"callers": ["host"]},
        {"callers": ['fe80::1%" accept comment "x']},
        {"more": []},
        {"gateway": {"network": "10.0.0.0/8", "port": 20000}},
        {"gateway": {"network": "fd00::1/128", "port": 20000}},
        {"gateway": {"network": "10.0.0.1/32", "port": None}},
    ],
)
def test_invalid_addresses_never_reach_nft(change: dict[str, Any]) -> None:
    """Each field is parsed; nothing of a request is text in a rule."""
    with pytest.raises(ValueError, match=r"must|appear|host bits"):
        netrules.parsed({**RULES.as_dict(), **change})


def test_rules_that_are_in_force_are_not_complained_of() -> None:
    """However nft writes the same networks."""
    said = listed(RULES)
    assert netrules.wrong(said, RULES) is None
    said["nftables"][1]["set"]["elem"] = ["10.0.0.0", {"range": ["10.0.0.1", "10.255.255.255"]}]
    assert netrules.wrong(said, RULES) is None


@pytest.mark.parametrize("left_out", range(1, 34))
def test_whatever_is_missing_is_noticed(left_out: int) -> None:
    """A set, a chain or a rule."""
    said = listed(RULES)
    assert len(said["nftables"]) == 34
    said["nftables"].pop(left_out)
    assert netrules.wrong(said, RULES) is not None


@pytest.mark.parametrize(
    "elements",
    [[], [{"prefix": {"addr": "10.0.0.0", "len": 9}}], [{"prefix": {"addr": "8.0.0.0", "len": 7}}]],
)
def test_a_set_that_is_not_the_given_one_is_noticed(elements: list[Any]) -> None:
    """Smaller, larger or empty."""
    said = listed(RULES)
    said["nftables"][1]["set"]["elem"] = elements
    assert netrules.wrong(said, RULES) == "set refused4 differs from the given one"


@pytest.mark.parametrize(
    ("place", "kind", "change"),
    [
        (3, "set", {"size": 65536}),
        (4, "set", {"timeout": None}),
        (5, "chain", {"policy": "accept"}),
        (5, "chain", {"hook": "postrouting"}),
        (-7, "rule", {"expr": [{"accept": None}]}),
        (-7, "rule", {"chain": "input"}),
    ],
)
def test_a_verdict_or_policy_that_was_turned_is_noticed(
    place: int, kind: str, change: dict[str, Any]
) -> None:
    """A chain that lets all pass, a rule that accepts what it should refuse or is elsewhere."""
    said = listed(RULES)
    said["nftables"][place][kind].update(change)
    assert netrules.wrong(said, RULES) is not None


def test_a_rule_too_many_is_noticed() -> None:
    """So is a table that is not there at all."""
    said = listed(RULES)
    said["nftables"].append({"rule": {"chain": "output", "comment": "x", "expr": [{"accept": None}]}})
    assert netrules.wrong(said, RULES) == "chain output does not have the given rules"
    assert netrules.wrong({}, RULES) is not None


def element(address: str, protocol: object, port: object, packets: int, left: int) -> dict[str, Any]:
    value = {"concat": [address, protocol, port]}
    return {"elem": {"val": value, "expires": left, "counter": {"packets": packets, "bytes": 60}}}


def test_refusals_are_read_from_the_sets() -> None:
    """The latest first; a protocol without a name is a number; elements of an unexpected form are left
    out."""
    said = listed(RULES)
    said["nftables"][3]["set"]["elem"] = [
        element("10.1.2.3", "tcp", 5432, 3, 3000),
        element("10.1.2.3", 47, 0, 1, 3590),
        element("10.1.2.3", "tcp", "ssh", 1, 1),
        "10.1.2.3",
    ]
    said["nftables"][4]["set"]["elem"] = [element("fd00::1", "udp", 53, 2, 9999)]

    found = [
        (str(one.address), one.protocol, one.port, one.packets, one.ago) for one in netrules.refused(said)
    ]

    assert found == [
        ("fd00::1", "udp", 53, 2, 0),
        ("10.1.2.3", "47", 0, 1, 10),
        ("10.1.2.3", "tcp", 5432, 3, 600),
    ]
    assert netrules.refused({}) == []


GATEWAY = replace(RULES, gateway=Opening(ip_network("172.18.0.1/32"), 20001))


def with_gateway() -> dict[str, Any]:
    """nft's list with the way to a gateway."""
    said = listed(GATEWAY)
    dnat = {"dnat": {"family": "ip", "addr": "172.18.0.1", "port": 20001}}
    after = next(
        number
        for number, one in enumerate(said["nftables"])
        if one.get("rule", {}).get("comment") == "refused4"
    )
    opened = {"chain": "output", "comment": "open 172.18.0.1/32 20001", "expr": [{"accept": None}]}
    said["nftables"].insert(after, {"rule": opened})
    said["nftables"] += [
        {"chain": {"name": "lead", "type": "nat", "hook": "output", "policy": "accept"}},
        {"rule": {"chain": "lead", "comment": "gateway 172.18.0.1:20001", "expr": [{"match": {}}, dnat]}},
    ]
    return said


def test_a_session_is_led_to_its_gateway_by_a_constant_address() -> None:
    """Programs are given that one; where it leads is open, for TCP to that port alone."""
    said = netrules.text(GATEWAY)

    assert (str(netrules.GATEWAY[0]), netrules.GATEWAY[1]) == (places.ADDRESS, places.PORT)
    assert "ip daddr 192.0.2.1 tcp dport 3128 dnat ip to 172.18.0.1:20001 " in said
    assert "ip daddr 172.18.0.1/32 meta l4proto tcp th dport 20001 accept" in said
    assert "dnat" not in netrules.text(RULES)
    assert netrules.parsed(json.loads(json.dumps(GATEWAY.as_dict()))) == GATEWAY


def test_a_way_to_another_gateway_is_noticed() -> None:
    """Or none, or one more."""
    assert netrules.wrong(with_gateway(), GATEWAY) is None
    for change in ({"addr": "172.18.0.9"}, {"port": 22}):
        said = with_gateway()
        said["nftables"][-1]["rule"]["expr"][-1]["dnat"].update(change)
        assert netrules.wrong(said, GATEWAY) == "the route to the gateway differs from the given one"
    for count in (1, 2):
        said = with_gateway()
        del said["nftables"][-count:]
        assert netrules.wrong(said, GATEWAY) is not None
    said = with_gateway()
    said["nftables"].append(said["nftables"][-1])
    assert netrules.wrong(said, GATEWAY) is not None
