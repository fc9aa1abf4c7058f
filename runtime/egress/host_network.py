"""The host's network from which sessions are closed off: its addresses and resolvers, and the rules that
follow.

Three kinds of sessions have a network: `internet` (the default) reaches nothing but the internet, `open`
also the machine's surroundings. Neither reaches other sessions or the metadata service of a cloud. A
fourth, `domains`, reaches the gateway, and on its own nothing that is not opened. Facts come from the
kernel's and the system's public configuration; the rules that follow are pure. A resolver's answer without
an address is kept apart from a missing answer.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Interface,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)
from pathlib import Path

from holdfast.runtime.sessions import network_exceptions
from holdfast.runtime.sessions.network_exceptions import Allowed, Lookup
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
_APPARENT_GATEWAY = ("192.0.2.1/32",)
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
_EMBEDDING = ((0xFFFF << 32, 0, 96), (0x2002 << 112, 80, 16))
"""First address, distance of the IPv4 address from the end, and length before it, in bits: addresses that are
mapped (RFC 4291) and of 6to4 (RFC 3056)."""
_ANYWHERE = ("64:ff9b:1::/48", "2001::/32")
"""NAT64 of a network's own (RFC 8215), and Teredo (RFC 4380), which hides the address."""
_EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))
_TRIE, _ROUTES, _IPV6 = Path("/proc/net/fib_trie"), Path("/proc/net/route"), Path("/proc/net/if_inet6")
RESOLVER = Path("/etc/resolv.conf")
UPSTREAM = Path("/run/systemd/resolve/resolv.conf")
"""The resolvers that systemd-resolved itself uses (systemd-resolved.service(8))."""
FALLBACK = (IPv4Address("8.8.8.8"), IPv4Address("8.8.4.4"))
"""Docker's choice for containers of a machine whose resolvers no container can reach."""
_UP, _GATEWAY = 0x1, 0x2  # <linux/route.h>
_LEAST_PREFIX = {4: 8, 6: 16}
"""Wider networks are default routes in pieces, as VPNs install them."""
_NO_ADDRESS = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


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


@dataclass(frozen=True, slots=True)
class Wishes:
    """Destinations that the options of a session and its home open and close.

    Attributes:
        opened: places that a person opened by address: they are reached wherever they are.
        others: addresses of names, and places that the home opens: they are reached unless denied.
        denied: closed networks, with all addresses of IPv6 that lead there.
        allowed: networks that are exempt from `denied`, and from nothing else.
        unknown: names without an address.
    """

    opened: tuple[Opening, ...] = ()
    others: tuple[Opening, ...] = ()
    denied: tuple[Network, ...] = ()
    allowed: tuple[Network, ...] = ()
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        allow: Iterable[str],
        deny: Iterable[str],
        home: Iterable[Allowed] = (),
        lookup: Lookup = lambda _: [],
    ) -> Wishes:
        """Return the wishes of a session's options and its home."""
        own = list(map(Allowed.parse, allow))
        opened, _ = network_exceptions.openings((one for one in own if not one.is_name), lookup)
        others, unknown = network_exceptions.openings([*(one for one in own if one.is_name), *home], lookup)
        return cls(
            tuple(opened),
            tuple(others),
            _with_embedded(map(network_exceptions.denied, deny)),
            _with_translated(whole for one in own if (whole := one.undenied) is not None),
            tuple(unknown),
        )

    def is_denied(self, network: Network) -> bool:
        """Return whether a part of a network is denied, unless all of it is allowed."""
        within = any(_covers(one, network) for one in self.allowed)
        return not within and any(
            one.version == network.version and one.overlaps(network) for one in self.denied
        )


def rules(kind: str, machine: HostNetwork, bridge: Bridge, wishes: Wishes = Wishes()) -> NetworkRules:
    """Return the rules of a session."""
    others = list(wishes.others)
    if kind != "domains":
        others += [Opening(ip_network(address), DNS) for address in machine.resolvers]
    if kind == "open":
        others += [Opening(ip_network(address)) for address in bridge.gateways]
    explicit = [*wishes.opened, *(one for one in others if not wishes.is_denied(one.network))]
    denied = _EVERYTHING if kind == "domains" else wishes.denied
    if kind == "open":
        refused = [*_parsed(_METADATA + _LINK_LOCAL + _APPARENT_GATEWAY), *bridge.subnets]
    else:
        own = [ip_network(address) for address in (*machine.addresses, *bridge.gateways)]
        refused = [
            *_parsed(_METADATA + _LINK_LOCAL + _APPARENT_GATEWAY + _SPECIAL),
            *bridge.subnets,
            *machine.networks,
            *own,
        ]
    return NetworkRules(
        _with_translated(refused),
        tuple(dict.fromkeys(explicit)),
        bridge.gateways,
        denied=denied,
        allowed=wishes.allowed,
    )


def closed(place: str, machine: HostNetwork) -> bool:
    """Return whether a session of the default kind cannot reach any of an address or network."""
    refused = rules("internet", machine, Bridge()).refused
    return any(_covers(network, ip_network(place)) for network in refused)


def denied_resolvers(machine: HostNetwork, wishes: Wishes) -> list[Address]:
    """Return the resolvers that a session cannot ask, because they are denied."""
    return [
        address
        for address in machine.resolvers
        if wishes.is_denied(network := ip_network(address)) and Opening(network, DNS) not in wishes.opened
    ]


def _parsed(texts: Iterable[str]) -> list[Network]:
    return [ip_network(text) for text in texts]


def _covers(outer: Network, inner: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _with_translated(networks: Iterable[Network]) -> tuple[Network, ...]:
    """Return networks without overlaps, with the NAT64 addresses of the IPv4 ones."""
    networks = list(networks)
    older = list(collapse_addresses(one for one in networks if isinstance(one, IPv4Network)))
    newer = [one for one in networks if isinstance(one, IPv6Network)]
    return (*older, *collapse_addresses([*newer, *map(_translated, older)]))


def _with_embedded(networks: Iterable[Network]) -> tuple[Network, ...]:
    """Return networks, with every IPv6 network that could lead to the IPv4 ones.

    Where the place of an embedded address is not fixed, the whole network is among them.
    """
    found = _with_translated(networks)
    older = [one for one in found if isinstance(one, IPv4Network)]
    if not older:
        return found
    embedded = [
        *(
            IPv6Network((first + (int(one[0]) << shift), length + one.prefixlen))
            for one in older
            for first, shift, length in _EMBEDDING
        ),
        *map(IPv6Network, _ANYWHERE),
    ]
    newer = [one for one in found if isinstance(one, IPv6Network)]
    return (*older, *collapse_addresses([*newer, *embedded]))


def _translated(network: IPv4Network) -> IPv6Network:
    """Return the same addresses as they are reached through NAT64."""
    first = int(_NAT64.network_address) + int(network.network_address)
    return IPv6Network((first, 96 + network.prefixlen))


def look() -> HostNetwork:
    """Return the host's present network. Unreadable parts are empty."""
    v6 = interfaces(_read(_IPV6))
    return HostNetwork(
        addresses=(*local_addresses(_read(_TRIE)), *(one.ip for one in v6)),
        networks=(
            *connected(_read(_ROUTES)),
            *(one.network for one in v6 if one.network.prefixlen >= _LEAST_PREFIX[6]),
        ),
        resolvers=resolvers(_read(RESOLVER), _read(UPSTREAM)),
    )


def resolver_file() -> str:
    """Return a resolv.conf for sessions: the host's resolvers as of `look`, its search list and options."""
    kept = [line for line in _read(RESOLVER).splitlines() if line.split()[:1] in (["search"], ["options"])]
    found = resolvers(_read(RESOLVER), _read(UPSTREAM))
    return "".join(f"{line}\n" for line in [*(f"nameserver {address}" for address in found), *kept])


def resolvers(text: str, upstream: str) -> tuple[Address, ...]:
    """Return the resolvers a container can use, from a resolv.conf(5); pure.

    As Docker chooses: loopback resolvers are the host's own, and are replaced by their upstreams. The
    sessions' network does not have IPv6.
    """
    for source in (text, upstream):
        found = [address for address in _nameservers(source) if not address.is_loopback]
        usable = tuple(address for address in found if address.version == 4)
        if usable:
            return usable
    return FALLBACK


def local_addresses(text: str) -> tuple[IPv4Address, ...]:
    """Return all IPv4 addresses of the host except loopback, from /proc/net/fib_trie; pure."""
    found: dict[IPv4Address, None] = {}
    last = ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            last = words[1]
        elif words == ["/32", "host", "LOCAL"]:
            found[IPv4Address(last)] = None
    return tuple(address for address in found if not address.is_loopback)


def connected(text: str, order: str = sys.byteorder) -> tuple[IPv4Network, ...]:
    """Return the networks reached without a gateway, from /proc/net/route (in byte order `order`); pure."""
    found: dict[IPv4Network, None] = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        flags = int(words[3], 16)
        if flags & _UP and not flags & _GATEWAY:
            address, mask = (_number(words[place], order) for place in (1, 7))
            network = IPv4Network((address, mask.bit_count()))
            if network.prefixlen >= _LEAST_PREFIX[4]:
                found[network] = None
    return tuple(found)


def interfaces(text: str) -> tuple[IPv6Interface, ...]:
    """Return the host's IPv6 addresses but loopback, with their networks, from /proc/net/if_inet6; pure."""
    found = []
    for line in text.splitlines():
        digits, _, prefix, *_ = line.split()
        found.append(IPv6Interface((int(digits, 16), int(prefix, 16))))
    return tuple(one for one in found if not one.ip.is_loopback)


def _nameservers(text: str) -> Iterator[Address]:
    for line in text.splitlines():
        words = line.split()
        # An address with a zone belongs to a network that the container is not in.
        if words[:1] == ["nameserver"] and len(words) > 1 and "%" not in words[1]:
            try:
                yield ip_address(words[1])
            except ValueError:
                continue


def _number(digits: str, order: str) -> int:
    value = bytes.fromhex(digits)
    return int.from_bytes(value[::-1] if order == "little" else value, "big")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def looked_up(names: Iterable[str], seconds: float) -> dict[str, list[str] | None]:
    """Return the addresses of each name, empty if it has none; None for unresolved names."""
    found: dict[str, list[str] | None] = dict.fromkeys(names)
    asked = dict[str, list[str] | None]()

    def ask(name: str) -> None:
        asked[name] = _addresses(name)

    # Not a pool: the end of the process would wait for its threads.
    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in found]
    until = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {name: asked.get(name) for name in found}


def lookup_of(names: Iterable[str], seconds: float) -> Callable[[str], list[str]]:
    """Return a function that looks names up in the results of that time."""
    found = looked_up(names, seconds)
    return lambda name: found.get(name) or []


def _addresses(name: str) -> list[str] | None:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [] if error.errno in _NO_ADDRESS else None
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found if "%" not in str(entry[4][0])))
