"""Facts about a host from files of the kernel and the resolver's configuration."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from holdfast.runtime.egress import host_network
from holdfast.runtime.egress.host_network import Bridge, HostNetwork, Wishes
from holdfast.runtime.sessions.network_exceptions import Allowed
from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules, Opening

TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 198.51.100.0/24 2 0 2
        |-- 198.51.100.0
           /24 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
     |-- 198.51.100.2
        /32 host LOCAL
     |-- 198.51.100.255
        /32 link BROADCAST
"""
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t016433C6\t0003\t0\t0\t0\t00000000\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth0\t006433C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
wg0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0
"""
IPV6 = """fd120000000000000000000000000009 04 40 00 82     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""
MACHINE = HostNetwork(
    addresses=(ip_address("198.51.100.7"), ip_address("2001:db8::7")),
    networks=(ip_network("198.51.100.0/28"), ip_network("2001:db8::/64")),
    resolvers=(ip_address("10.0.0.53"), ip_address("169.254.169.254")),
)
BRIDGE = Bridge((ip_network("192.168.7.0/24"),), (ip_address("192.168.7.1"),))


def test_addresses_are_local_ones() -> None:
    """Neither networks nor broadcast, nor loopback."""
    assert host_network.local_addresses(TRIE) == (ip_address("198.51.100.2"),)


def test_networks_without_a_gateway_are_connected() -> None:
    """In the byte order of the machine; the halves of a VPN's default route do not count."""
    expected = (ip_network("172.17.0.0/16"), ip_network("198.51.100.0/24"))
    assert host_network.connected(ROUTES, "little") == expected
    big = ROUTES.replace("000011AC", "AC110000").replace("0000FFFF", "FFFF0000")
    big = big.replace("006433C6", "C6336400").replace("00FFFFFF", "FFFFFF00").replace("00000080", "80000000")
    assert host_network.connected(big, "big") == expected


def test_ipv6_addresses_come_with_their_networks() -> None:
    """Except loopback."""
    (found,) = host_network.interfaces(IPV6)
    assert (str(found.ip), str(found.network)) == ("fd12::9", "fd12::/64")


def test_all_found_addresses_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses and networks of both kinds: sessions and the gateway would reach a forgotten one."""
    for name, text in (("_TRIE", TRIE), ("_ROUTES", ROUTES), ("_IPV6", IPV6)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(host_network, name, tmp_path / name)
    found = host_network.look()
    (six,) = host_network.interfaces(IPV6)
    assert set(found.addresses) == {*host_network.local_addresses(TRIE), six.ip}
    assert set(found.networks) == {*host_network.connected(ROUTES), six.network}
    rules = host_network.rules("internet", found, host_network.Bridge())
    for address in found.addresses:
        assert any(address in one for one in rules.refused if one.version == address.version)
    # Some machines have their address alone, in no network.
    alone = [ip_address("203.0.113.9"), ip_address("2001:db8:9::1")]
    rules = host_network.rules("internet", host_network.HostNetwork(tuple(alone)), host_network.Bridge())
    assert {ip_network(address) for address in alone} <= set(rules.refused)
    gateway = ip_address("203.0.113.10")
    rules = host_network.rules("internet", host_network.HostNetwork(), host_network.Bridge((), (gateway,)))
    assert ip_network(gateway) in rules.refused


def test_the_machine_itself_is_understood() -> None:
    """It has the address from which it would reach another host, if there is a route; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("198.51.100.1", 9))
        except OSError:
            return
        used = ip_address(one.getsockname()[0])
    assert used.is_loopback or used in host_network.look().addresses


@pytest.mark.parametrize(
    ("given", "upstream", "expected"),
    [
        ("nameserver 10.0.0.1\nnameserver 10.0.0.2\n", "nameserver 1.1.1.1", ["10.0.0.1", "10.0.0.2"]),
        ("nameserver 127.0.0.53\n", "nameserver 192.168.1.1", ["192.168.1.1"]),
        ("nameserver 127.0.0.1\nnameserver 10.0.0.1\n", "", ["10.0.0.1"]),
        ("nameserver ::1\nnameserver fd00::1\nnameserver fe80::1%eth0\n", "", ["8.8.8.8", "8.8.4.4"]),
        ("# nameserver 10.0.0.1\nnameserver\nnameserver x\nnameserver 10.0.0.3 # x", "", ["10.0.0.3"]),
        ("", "", ["8.8.8.8", "8.8.4.4"]),
    ],
)
def test_resolvers_are_chosen_as_docker_chooses(given: str, upstream: str, expected: list[str]) -> None:
    """Loopback resolvers are replaced by their upstreams."""
    assert [str(one) for one in host_network.resolvers(given, upstream)] == expected


def refused(rules: NetworkRules, address: str) -> bool:
    """Return whether the rules refuse a packet to a port that was not opened."""
    found = ip_address(address)

    def within(networks: list[object]) -> bool:
        return any(found in network for network in networks)  # type: ignore[operator]

    whole = [one.network for one in rules.opened if one.port is None and one.network.version == found.version]
    denied = within(list(rules.denied)) and not within(list(rules.allowed))
    return not within(list(whole)) and (within(list(rules.refused)) or denied)


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
    assert refused(host_network.rules("internet", MACHINE, BRIDGE), address)
    assert address in ("192.168.7.1",) or host_network.closed(address, MACHINE)


@pytest.mark.parametrize("address", ["8.8.8.8", "198.51.100.17", "172.32.0.1", "2600::1", "64:ff9b::8.8.8.8"])
def test_the_internet_is_open(address: str) -> None:
    """The neighbor of a network is not in it; an IPv4 address can be reached through NAT64."""
    assert not refused(host_network.rules("internet", MACHINE, BRIDGE), address)
    assert not host_network.closed(address, MACHINE)


def test_resolvers_are_open_for_names_alone() -> None:
    """Wherever they are: where the metadata service answers names, everything else of it is still closed."""
    rules = host_network.rules("internet", MACHINE, BRIDGE)

    assert Opening(ip_network("10.0.0.53/32"), 53) in rules.opened
    assert [one.port for one in rules.opened if one.network == ip_network("169.254.169.254/32")] == [53]


def test_a_users_exceptions_come_first() -> None:
    """Whatever they open."""
    chosen = Opening(ip_network("10.0.0.0/8"), 5432)
    assert host_network.rules("internet", MACHINE, BRIDGE, Wishes(opened=(chosen,))).opened[0] == chosen


def test_an_open_session_reaches_the_host_and_no_other_session() -> None:
    """Nor the metadata of a cloud."""
    rules = host_network.rules("open", MACHINE, BRIDGE)

    assert not any(refused(rules, one) for one in ("192.168.7.1", "198.51.100.7", "10.0.0.1", "2001:db8::1"))
    assert all(refused(rules, one) for one in ("192.168.7.9", "169.254.169.254", "168.63.129.16", "fe80::1"))


def test_a_session_of_domains_only_reaches_openings_directly() -> None:
    """No address of the internet, and no resolver: a query would leak data."""
    chosen = Opening(ip_network("10.0.0.0/8"), 5432)
    rules = host_network.rules("domains", MACHINE, BRIDGE, Wishes(opened=(chosen,)))

    assert all(refused(rules, one) for one in ("8.8.8.8", "10.0.0.53", "192.168.7.1", "2600::1", "192.0.2.1"))
    assert rules.opened == (chosen,)
    assert refused(host_network.rules("internet", MACHINE, BRIDGE), "192.0.2.1")


DENIED = Wishes.of(["1.1.1.1", "[2606:4700::1111]"], ["0.0.0.0/0", "::/0"])


def test_denied_addresses_are_refused_except_allowed_ones() -> None:
    """In every kind of network, and also by the addresses of IPv6 that lead to one of IPv4."""
    for kind in ("internet", "open", "domains"):
        rules = host_network.rules(kind, MACHINE, BRIDGE, DENIED)
        assert not any(refused(rules, one) for one in ("1.1.1.1", "2606:4700::1111"))
        assert all(refused(rules, one) for one in ("1.1.1.2", "2606:4700::1112", "10.0.0.53"))
        assert rules.opened == ()
    rules = host_network.rules("open", MACHINE, BRIDGE, Wishes.of((), ["8.8.8.8"]))
    ways = ("8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "64:ff9b:1::1", "2001::1")
    assert all(refused(rules, one) for one in ways)
    near = ("8.8.8.9", "::ffff:8.8.8.9", "64:ff9b::808:809", "2002:808:809::1", "10.0.0.1", "2001:db8::1")
    assert not any(refused(rules, one) for one in near)
    assert not host_network.rules("internet", MACHINE, BRIDGE).denied


def test_allowing_everything_opens_nothing_private() -> None:
    """An entry without a port is not an exception from the addresses that a kind of network refuses."""
    plain = host_network.rules("internet", MACHINE, BRIDGE)
    rules = host_network.rules("internet", MACHINE, BRIDGE, Wishes.of(["0.0.0.0/0", "[::/0]"], ["0.0.0.0/0"]))

    assert (rules.refused, rules.opened) == (plain.refused, plain.opened)
    assert all(refused(rules, one) for one in ("10.0.0.1", "169.254.169.254", "192.168.7.1", "fd00::1"))
    assert not refused(rules, "8.8.8.8")


def test_only_an_exception_by_its_address_beats_a_denial() -> None:
    """Anyone who answers for a name, the home and the machine's resolvers do not."""
    home = (Allowed.parse("10.0.0.9:443"), Allowed.parse("172.16.0.9:443"), Allowed.parse("10.0.0.0/31:80"))
    wishes = Wishes.of(
        ["10.0.0.7:443", "db.test:5432"], ["10.0.0.0/8"], home, lambda _: ["10.0.0.8", "9.9.9.9"]
    )
    rules = host_network.rules("internet", MACHINE, BRIDGE, wishes)

    found = [str(one) for one in rules.opened if one.port != 53]
    assert found == ["10.0.0.7/32 443", "9.9.9.9/32 5432", "172.16.0.9/32 443"]
    assert host_network.denied_resolvers(MACHINE, wishes) == [ip_address("10.0.0.53")]
    embedded = Wishes.of(["evil.test:80"], ["8.8.8.8"], (), lambda _: ["64:ff9b::808:808", "2002:808:808::1"])
    opened = host_network.rules("internet", MACHINE, BRIDGE, embedded).opened
    assert {one.port for one in opened} == {53}
    asked = Wishes.of(["10.0.0.53:53"], ["10.0.0.0/8"])
    assert host_network.denied_resolvers(MACHINE, asked) == []


def test_only_the_host_can_connect_in() -> None:
    """By its address in the sessions' network."""
    assert host_network.rules("internet", MACHINE, BRIDGE).callers == (ip_address("192.168.7.1"),)
