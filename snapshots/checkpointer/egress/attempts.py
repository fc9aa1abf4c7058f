"""A session's refused connections, as its rules record them: destinations with counters, in sets of nftables.

Pure: returns the text of the sets and of the rules that fill them, and parses nft's listing of them. Only
root outside of the session can read or empty the sets. Each has a limited size and its elements a lifetime,
so that a flood of destinations takes a bounded amount of the kernel's memory; packets beyond that are
refused and not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

SIZE = 128
"""Destinations of one family that are recorded at the same time."""
LIFETIME = 3600
"""Seconds after its last packet for which a destination is recorded."""
SETS = {"attempts4": ("ipv4_addr", "ip"), "attempts6": ("ipv6_addr", "ip6")}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Packets to one destination, all blocked. `port` is 0 where the protocol has none.

    `ago`: seconds since the last of them.
    """

    address: IPv4Address | IPv6Address
    protocol: str
    port: int
    packets: int
    ago: int

    def as_dict(self) -> dict[str, object]:
        """Return the fields for the checkpointer's socket."""
        return {
            "address": str(self.address),
            "protocol": self.protocol,
            "port": self.port,
            "packets": self.packets,
            "ago": self.ago,
        }


def sets() -> list[str]:
    """Return the sets in the syntax of nft(8)."""
    return [
        f"set {name} {{ type {kind} . inet_proto . inet_service; flags dynamic,timeout; "
        f"size {SIZE}; timeout {LIFETIME}s; }}"
        for name, (kind, _) in SETS.items()
    ]


def rules() -> list[tuple[str, str]]:
    """Return the rules that record a packet: the action of each, and a comment that names it.

    A full set ends a rule and not the chain, so recording is separate from refusing. Only TCP and UDP have
    ports; the bytes in that place of other protocols are the program's choice and would fill the set.
    """
    return [
        (f"meta l4proto {match} update @{name} {{ {family} daddr . meta l4proto . {port} counter }}", comment)
        for name, (_, family) in SETS.items()
        for match, port, comment in (
            ("{ tcp, udp }", "th dport", f"{name} by port"),
            ("!= { tcp, udp }", "0", f"{name} without port"),
        )
    ]


def unbounded(items: Iterable[Mapping[str, object]]) -> str | None:
    """Return the first of the sets that is missing from nft's listing, or is larger than it should be."""
    found = {item.get("name"): (item.get("size"), item.get("timeout")) for item in items}
    return next((name for name in SETS if found.get(name) != (SIZE, LIFETIME)), None)


def listed(items: Iterable[Mapping[str, object]]) -> list[Attempt]:
    """Return the contents of the sets, the latest first. Malformed elements are left out."""
    found = [
        attempt
        for item in items
        if item.get("name") in SETS
        for element in _elements(item)
        if (attempt := _attempt(element)) is not None
    ]
    return sorted(found, key=lambda one: one.ago)


def _elements(item: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    elements = item.get("elem")
    for one in elements if isinstance(elements, list) else ():
        if isinstance(one, dict) and isinstance(one.get("elem"), dict):
            yield one["elem"]


def _attempt(element: Mapping[str, object]) -> Attempt | None:
    match element:
        case {
            "val": {"concat": [str(address), str() | int() as protocol, int(port)]},
            "counter": {"packets": int(packets)},
            "expires": int(left),
        }:
            try:
                ago = min(max(LIFETIME - left, 0), LIFETIME)
                return Attempt(ip_address(address), str(protocol), port, packets, ago)
            except ValueError:
                return None
    return None
