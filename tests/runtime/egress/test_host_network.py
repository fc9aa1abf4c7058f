"""Facts about a host from files of the kernel and the resolver's configuration."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from holdfast.runtime.egress import host_network, reach

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


def test_all_that_is_found_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses and networks of both kinds: what is forgotten here, sessions and the gateway reach."""
    for name, text in (("_TRIE", TRIE), ("_ROUTES", ROUTES), ("_IPV6", IPV6)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(host_network, name, tmp_path / name)
    found = host_network.look()
    (six,) = host_network.interfaces(IPV6)
    assert set(found.addresses) == {*host_network.local_addresses(TRIE), six.ip}
    assert set(found.networks) == {*host_network.connected(ROUTES), six.network}
    rules = reach.rules("internet", found, reach.Bridge(), ())
    for address in found.addresses:
        assert any(address in one for one in rules.refused if one.version == address.version)
    # Some machines have their address alone, in no network.
    alone = [ip_address("203.0.113.9"), ip_address("2001:db8:9::1")]
    rules = reach.rules("internet", reach.HostNetwork(tuple(alone)), reach.Bridge(), ())
    assert {ip_network(address) for address in alone} <= set(rules.refused)
    gateway = ip_address("203.0.113.10")
    rules = reach.rules("internet", reach.HostNetwork(), reach.Bridge((), (gateway,)), ())
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
