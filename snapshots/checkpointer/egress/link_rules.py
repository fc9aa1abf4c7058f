"""The rules at the links of a container, for packets that bypass the rules of `netrules`.

A program with CAP_NET_RAW can give its packets to a link itself (packet(7)): the rules for outgoing packets
do not see these. A build's steps have that capability, since the engine cannot take it away. So every frame
is judged once more where it leaves (the egress hook of netdev, Linux 5.16): IPv4 from the link's own
address, to where the other rules also let it go, and address resolution about itself. All else is dropped.

Pure but for `own_links`, which asks the kernel.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, collapse_addresses

from holdfast.snapshots.checkpointer.egress.netrules import TABLE, Network, NetworkRules

_SIOCGIFADDR, _SIOCGIFHWADDR = 0x8915, 0x8927  # netdevice(7)
_NAME_LONGEST = 16


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a container: its name, its hardware address, its IPv4 address if it has one."""

    name: str
    hardware: str
    address: IPv4Address | None

    @property
    def chain(self) -> str:
        """The name of the chain of its rules."""
        return f"egress{''.join(letter for letter in self.name if letter.isalnum())}"


def own_links() -> list[Link]:
    """Return the links of this process's network but loopback.

    Raises:
        OSError: the kernel does not tell.
    """
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
        for _, name in socket.if_nameindex():
            if name == "lo":
                continue
            asked = struct.pack("16s24x", name.encode()[: _NAME_LONGEST - 1])
            hardware = fcntl.ioctl(asking, _SIOCGIFHWADDR, asked)[18:24]
            try:
                address = IPv4Address(fcntl.ioctl(asking, _SIOCGIFADDR, asked)[20:24])
            except OSError:
                address = None
            found.append(Link(name, hardware.hex(":"), address))
    return found


def text(rules: NetworkRules, links: Iterable[Link]) -> str:
    """Return the text for nft(8): one transaction that replaces the previous rules."""
    lines = [
        f"table netdev {TABLE}",
        f"delete table netdev {TABLE}",
        f"table netdev {TABLE} {{",
        _set("refused4", rules.refused),
        *((_set("denied4", rules.denied), _set("allowed4", rules.allowed)) if rules.denied else ()),
    ]
    for link in links:
        lines += [
            f"chain {link.chain} {{",
            f'type filter hook egress device "{link.name}" priority 0; policy drop;',
            *(f'{match} comment "{comment}"' for match, comment in _judged(rules, link)),
            "}",
        ]
    return "\n".join([*lines, "}", ""])


def wrong(listed: Mapping[str, object], rules: NetworkRules, links: Iterable[Link]) -> str | None:
    """Return the link that lacks its rules, by nft's listing of the table in JSON; None if there is none."""
    given = listed.get("nftables")
    items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    for link in links:
        chain: dict[str, object] = next(
            (one["chain"] for one in items if one.get("chain", {}).get("name") == link.chain), {}
        )
        device = chain.get("dev")
        hooked = (chain.get("hook"), chain.get("policy"), device[0] if isinstance(device, list) else device)
        if hooked != ("egress", "drop", link.name):
            return f"the rules do not cover the link {link.name}"
        there = [
            one["rule"].get("comment") for one in items if one.get("rule", {}).get("chain") == link.chain
        ]
        if there != [comment for _, comment in _judged(rules, link)]:
            return f"the link {link.name} does not have the given rules"
    return None


def _set(name: str, networks: Iterable[Network]) -> str:
    elements = ", ".join(
        map(str, collapse_addresses(one for one in networks if isinstance(one, IPv4Network)))
    )
    held = f"elements = {{ {elements} }};" if elements else ""
    return f"set {name} {{ type ipv4_addr; flags interval; {held} }}"


def _judged(rules: NetworkRules, link: Link) -> list[tuple[str, str]]:
    if link.address is None:
        return []
    own = f"arp saddr ether {link.hardware} arp saddr ip {link.address}"
    opened = [one for one in rules.opened if isinstance(one.network, IPv4Network)]
    if rules.gateway is not None:
        opened.append(rules.gateway)
    return [
        (f"ether saddr != {link.hardware} drop", "hardware of its own"),
        (f"ether type arp {own} accept", "own resolution"),
        ("ether type != ip drop", "no other protocol"),
        (f"ip saddr != {link.address} drop", "source of its own"),
        ("ip hdrlength != 5 drop", "no options"),
        ("ip protocol != { tcp, udp, icmp } drop", "known protocols"),
        *(
            (
                f"ip daddr {one.network}"
                f"{'' if one.port is None else f' ip protocol {{ tcp, udp }} th dport {one.port}'} accept",
                f"open {one}",
            )
            for one in opened
        ),
        ("ip daddr @refused4 drop", "refused4"),
        *([("ip daddr @denied4 ip daddr != @allowed4 drop", "denied4")] if rules.denied else []),
        ("accept", "internet"),
    ]
