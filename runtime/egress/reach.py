"""The closed networks of a session, and its openings. Pure: facts about the host come in, rules go out.

Three kinds of sessions have a network: `internet` (the default) reaches nothing but the internet, `open` also
the machine's surroundings. Neither reaches other sessions or the metadata service of a cloud. A fourth,
`domains`, reaches the gateway, and on its own nothing that is not opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from holdfast.snapshots.checkpointer.egress.netrules import Address, Network, NetworkRules, Opening

DNS = 53

# Metadata services of clouds, which also give out credentials. Link-local is the usual place; outside of it
# are Azure's (learn.microsoft.com, "What is IP address 168.63.129.16?"), Alibaba's and Oracle's, and those of
# AWS and Google over IPv6.
_METADATA = (
    "168.63.129.16/32",
    "100.100.100.200/32",
    "192.0.0.192/32",
    "fd00:ec2::254/128",
    "fd20:ce::254/128",
)
# The apparent address of the gateway. Without a gateway, connections to it are rejected at once.
_GATEWAY = ("192.0.2.1/32",)
_LINK_LOCAL = ("169.254.0.0/16", "fe80::/10")
# Not internet: the IANA registries of special-purpose addresses (RFC 6890), multicast and broadcast.
# Documentation networks are left out: no one has them, except those that use them for something else.
_SPECIAL = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::ffff:0:0/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2002::/16",
    "fc00::/7",
    "fec0::/10",
    "ff00::/8",
)
_NAT64 = ip_network("64:ff9b::/96")
"""A NAT64 gateway reads the IPv4 address from the last 32 bits (RFC 6052)."""


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """The host: its addresses, the networks it is directly connected to, the resolvers it uses."""

    addresses: tuple[Address, ...] = ()
    networks: tuple[Network, ...] = ()
    resolvers: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True)
class Bridge:
    """The sessions' network as a container sees it: its subnets, and the host's addresses in it."""

    subnets: tuple[Network, ...] = ()
    gateways: tuple[Address, ...] = ()


def rules(kind: str, machine: HostNetwork, bridge: Bridge, opened: Iterable[Opening]) -> NetworkRules:
    """Return the rules of a session; `opened` is what a person allowed, and counts whatever it is."""
    resolvers = [Opening(ip_network(address), DNS) for address in machine.resolvers]
    if kind == "domains":
        everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
        return NetworkRules(everything, tuple(dict.fromkeys(opened)), bridge.gateways)
    explicit = [*opened, *resolvers]
    if kind == "open":
        explicit += [Opening(ip_network(address)) for address in bridge.gateways]
        refused = [*_parsed(_METADATA + _LINK_LOCAL + _GATEWAY), *bridge.subnets]
    else:
        own = [ip_network(address) for address in (*machine.addresses, *bridge.gateways)]
        refused = [
            *_parsed(_METADATA + _LINK_LOCAL + _GATEWAY + _SPECIAL),
            *bridge.subnets,
            *machine.networks,
            *own,
        ]
    older = list(collapse_addresses(one for one in refused if isinstance(one, IPv4Network)))
    newer = [one for one in refused if isinstance(one, IPv6Network)]
    newer = list(collapse_addresses([*newer, *map(_translated, older)]))
    return NetworkRules((*older, *newer), tuple(dict.fromkeys(explicit)), bridge.gateways)


def closed(address: str, machine: HostNetwork) -> bool:
    """Return whether a session of the default kind may not reach an address."""
    found = ip_address(address)
    refused = rules("internet", machine, Bridge(), ()).refused
    return any(found in network for network in refused if network.version == found.version)


def _parsed(texts: Iterable[str]) -> list[Network]:
    return [ip_network(text) for text in texts]


def _translated(network: IPv4Network) -> IPv6Network:
    """Return the same addresses as they are reached through NAT64."""
    first = int(_NAT64.network_address) + int(network.network_address)
    return IPv6Network((first, 96 + network.prefixlen))
