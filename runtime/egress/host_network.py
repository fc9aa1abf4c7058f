"""The host's addresses, networks and resolvers, from the kernel's and the system's public configuration.

The parsers are pure; `look` reads the files. Knows nothing of sessions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Interface, ip_address
from pathlib import Path

from holdfast.runtime.egress.reach import HostNetwork
from holdfast.snapshots.checkpointer.egress.netrules import Address

_TRIE, _ROUTES, _IPV6 = Path("/proc/net/fib_trie"), Path("/proc/net/route"), Path("/proc/net/if_inet6")
RESOLVER = Path("/etc/resolv.conf")
UPSTREAM = Path("/run/systemd/resolve/resolv.conf")
"""The resolvers that systemd-resolved itself uses (systemd-resolved.service(8))."""
FALLBACK = (IPv4Address("8.8.8.8"), IPv4Address("8.8.4.4"))
"""Docker's choice for containers of a machine whose resolvers no container can reach."""
_UP, _GATEWAY = 0x1, 0x2  # <linux/route.h>
_LEAST_PREFIX = {4: 8, 6: 16}
"""Wider networks are default routes in pieces, as VPNs install them."""


def look() -> HostNetwork:
    """Return the host as it is now. What cannot be read is empty."""
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
    sessions' network has no IPv6.
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
