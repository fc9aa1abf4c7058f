"""The closed networks and the openings in the rules of a session."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from holdfast.runtime.egress import reach
from holdfast.runtime.egress.reach import Bridge, HostNetwork
from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules, Opening

MACHINE = HostNetwork(
    addresses=(ip_address("198.51.100.7"), ip_address("2001:db8::7")),
    networks=(ip_network("198.51.100.0/28"), ip_network("2001:db8::/64")),
    resolvers=(ip_address("10.0.0.53"), ip_address("169.254.169.254")),
)
BRIDGE = Bridge((ip_network("192.168.7.0/24"),), (ip_address("192.168.7.1"),))


def refused(rules: NetworkRules, address: str) -> bool:
    """Return whether the rules refuse a packet to a port that was not opened."""
    found = ip_address(address)

    def within(networks: list[object]) -> bool:
        return any(found in network for network in networks)  # type: ignore[operator]

    whole = [one.network for one in rules.opened if one.port is None and one.network.version == found.version]
    return not within(list(whole)) and within([one for one in rules.refused if one.version == found.version])


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255"),
        *("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "198.18.0.1"),
        *("0.0.0.0", "224.0.0.251", "255.255.255.255", "198.51.100.7", "198.51.100.1", "192.168.7.1"),
        *("fd00:ec2::254", "fd20:ce::254", "fe80::1", "fc00::1", "ff02::1", "2001:db8::7", "2001:db8::1"),
        *("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a00:1::", "64:ff9b:1::1"),
    ],
)
def test_networks_closed_to_a_default_session(address: str) -> None:
    """Private, shared and link-local addresses, clouds, the host and its networks, in every notation."""
    assert refused(reach.rules("internet", MACHINE, BRIDGE, ()), address)
    assert address in ("192.168.7.1",) or reach.closed(address, MACHINE)


@pytest.mark.parametrize("address", ["8.8.8.8", "198.51.100.17", "172.32.0.1", "2600::1", "64:ff9b::8.8.8.8"])
def test_the_internet_is_open(address: str) -> None:
    """The neighbor of a network is not in it; an IPv4 address may be reached through NAT64."""
    assert not refused(reach.rules("internet", MACHINE, BRIDGE, ()), address)
    assert not reach.closed(address, MACHINE)


def test_resolvers_are_open_for_names_alone() -> None:
    """Wherever they are: where the metadata service answers names, everything else of it is still closed."""
    rules = reach.rules("internet", MACHINE, BRIDGE, ())

    assert Opening(ip_network("10.0.0.53/32"), 53) in rules.opened
    assert [one.port for one in rules.opened if one.network == ip_network("169.254.169.254/32")] == [53]


def test_a_users_exceptions_come_first() -> None:
    """Whatever they open."""
    chosen = Opening(ip_network("10.0.0.0/8"), 5432)
    assert reach.rules("internet", MACHINE, BRIDGE, [chosen]).opened[0] == chosen


def test_an_open_session_reaches_the_host_and_no_other_session() -> None:
    """Nor the metadata of a cloud."""
    rules = reach.rules("open", MACHINE, BRIDGE, ())

    assert not any(refused(rules, one) for one in ("192.168.7.1", "198.51.100.7", "10.0.0.1", "2001:db8::1"))
    assert all(refused(rules, one) for one in ("192.168.7.9", "169.254.169.254", "168.63.129.16", "fe80::1"))


def test_a_session_of_domains_only_reaches_openings_directly() -> None:
    """No address of the internet, and no resolver: a query would leak data."""
    chosen = Opening(ip_network("10.0.0.0/8"), 5432)
    rules = reach.rules("domains", MACHINE, BRIDGE, [chosen])

    assert all(refused(rules, one) for one in ("8.8.8.8", "10.0.0.53", "192.168.7.1", "2600::1", "192.0.2.1"))
    assert rules.opened == (chosen,)
    assert refused(reach.rules("internet", MACHINE, BRIDGE, ()), "192.0.2.1")


def test_only_the_host_may_connect_in() -> None:
    """By its address in the sessions' network."""
    assert reach.rules("internet", MACHINE, BRIDGE, ()).callers == (ip_address("192.168.7.1"),)
