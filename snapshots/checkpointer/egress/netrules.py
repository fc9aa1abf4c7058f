"""The network rules of a session for nftables, and the check that the kernel enforces them.

Pure: takes addresses and returns the text for nft(8); takes nft's listing and returns what is wrong with it.
The rules are in the network namespace of the session's container, where nothing has the capability to change
them, and hold for every interface it has or gets.

Outgoing packets are judged by their destination, in this order: the engine's resolver, which knows the
names of other containers, is refused; loopback passes, and so does neighbour discovery (RFC 4861). A packet
with a foreign source, or one that would take another way than to its destination, is dropped; protocols
other than TCP, UDP and ICMP are refused. Then replies to incoming packets pass, and explicitly opened
destinations; then the refused networks are refused, and the denied ones except for their allowed parts:
that opens nothing of a refused network All else is the internet. Incoming packets must be replies, or come
from an address with the right to call. A refused program learns immediately: TCP by a reset, all else by an
ICMP error. Refused and dropped packets are recorded (`attempts`). A session with a gateway calls it at an
address that is the same everywhere, and is redirected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)
from typing import Any

from holdfast.snapshots.checkpointer.egress import attempts
from holdfast.snapshots.checkpointer.egress.attempts import Attempt

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

TABLE = "holdfast"
MOST = 512
"""Networks, openings and callers in one request, of each."""
ENGINE_RESOLVER = "127.0.0.11"
"""Where Docker answers names in a user-defined network (docs.docker.com, Networking overview)."""
GATEWAY = (ip_address("192.0.2.1"), 3128)
"""The address at which programs in a session call the gateway; no host has it (TEST-NET-1, RFC 5737)."""
_NEIGHBOURS = "{ nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert }"


@dataclass(frozen=True, slots=True)
class Opening:
    """A reachable destination in a refused network: TCP and UDP to `port`; None is all."""

    network: Network
    port: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the fields as `parsed` takes them."""
        return {"network": str(self.network), "port": self.port}

    def __str__(self) -> str:
        return f"{self.network} {'any' if self.port is None else self.port}"


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """Refused networks, the open destinations in them, and the addresses that can connect in.

    `gateway` is where the session's gateway really is: one address and port. `denied` are refused as well,
    except for `allowed`, which opens nothing that is in `refused`.
    """

    refused: tuple[Network, ...] = ()
    opened: tuple[Opening, ...] = ()
    callers: tuple[Address, ...] = ()
    gateway: Opening | None = None
    denied: tuple[Network, ...] = ()
    allowed: tuple[Network, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the fields as `parsed` takes them."""
        return {
            "refused": [str(network) for network in self.refused],
            "opened": [one.as_dict() for one in self.opened],
            "callers": [str(address) for address in self.callers],
            "gateway": None if self.gateway is None else self.gateway.as_dict(),
            "denied": [str(network) for network in self.denied],
            "allowed": [str(network) for network in self.allowed],
        }


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule; `verdict` is its final verdict in nft's JSON; `comment` identifies it."""

    match: str
    verdict: str
    comment: str

    def __str__(self) -> str:
        return f'{self.match} comment "{self.comment}"'


def parsed(raw: object) -> NetworkRules:
    """Rules received over the socket.

    Raises:
        ValueError: a sentence that says what is wrong.
    """
    if not isinstance(raw, dict) or set(raw) != set(NetworkRules().as_dict()):
        raise ValueError("'rules' must have refused, opened, callers, gateway, denied and allowed")
    refused, opened, callers = (_listed(raw, key) for key in ("refused", "opened", "callers"))
    denied, allowed = (_listed(raw, key) for key in ("denied", "allowed"))
    return NetworkRules(
        tuple(ip_network(_text(item)) for item in refused),
        tuple(_opening(item) for item in opened),
        tuple(ip_address(_text(item)) for item in callers),
        None if raw["gateway"] is None else _gateway(raw["gateway"]),
        tuple(ip_network(_text(item)) for item in denied),
        tuple(ip_network(_text(item)) for item in allowed),
    )


def text(rules: NetworkRules) -> str:
    """Return the text for nft(8): one transaction that replaces the previous rules."""
    chains = _chains(rules)
    return "\n".join(
        [
            f"table inet {TABLE}",
            f"delete table inet {TABLE}",
            f"table inet {TABLE} {{",
            *(_set(name, networks) for name, networks in _sets_of(rules).items()),
            *attempts.sets(),
            *(_chain(name, "", chains[name]) for name in ("record", "discard", "refuse")),
            _chain("output", "type filter hook output priority 0; policy drop;", chains["output"]),
            _chain("input", "type filter hook input priority 0; policy drop;", chains["input"]),
            _chain("forward", "type filter hook forward priority 0; policy drop;", chains["forward"]),
            *(
                [_chain("lead", "type nat hook output priority -100; policy accept;", chains["lead"])]
                if rules.gateway is not None
                else []
            ),
            "}",
            "",
        ]
    )


def wrong(listed: Mapping[str, object], rules: NetworkRules) -> str | None:
    """Return the rule that is not in force, by nft's listing of the table in JSON (libnftables-json(5)).

    None if all are.
    """
    items = [item for item in _items(listed) if isinstance(item, dict)]
    for name, networks in _sets_of(rules).items():
        found = next((item["set"] for item in items if item.get("set", {}).get("name") == name), None)
        if found is None or _ranges(found.get("elem", [])) != _merged(networks):
            return f"set {name} differs from the given one"
    if (unbounded := attempts.unbounded(_sets(listed))) is not None:
        return f"set {unbounded} differs from the given one"
    for hook in ("output", "input", "forward"):
        chain: dict[str, object] = next(
            (item["chain"] for item in items if item.get("chain", {}).get("name") == hook), {}
        )
        if (chain.get("type"), chain.get("hook"), chain.get("policy")) != ("filter", hook, "drop"):
            return f"the rules do not cover {hook}"
    for name, expected in _chains(rules).items():
        if name == "lead" and not _leads(items, rules):
            return "the route to the gateway differs from the given one"
        there = [item["rule"] for item in items if item.get("rule", {}).get("chain") == name]
        if [(rule.get("comment"), _verdict(rule)) for rule in there] != [
            (rule.comment, rule.verdict) for rule in expected
        ]:
            return f"chain {name} does not have the given rules"
    return None


def refused(listed: Mapping[str, object]) -> list[Attempt]:
    """Return the recent refusals, by nft's listing of the table in JSON; the latest first."""
    return attempts.listed(_sets(listed))


_VERSIONS = (4, 6)


def _sets_of(rules: NetworkRules) -> dict[str, list[Network]]:
    lists = {"refused": rules.refused}
    if rules.denied:
        lists |= {"denied": rules.denied, "allowed": rules.allowed}
    return {
        f"{name}{version}": _of_version(networks, version)
        for name, networks in lists.items()
        for version in _VERSIONS
    }


def _chains(rules: NetworkRules) -> dict[str, list[_Rule]]:
    lead = {} if rules.gateway is None else {"lead": [_lead(rules.gateway)]}
    return lead | {
        "record": [_Rule(match, "set", comment) for match, comment in attempts.rules()],
        # No answer: it would go to whatever the packet names as its source.
        "discard": [_Rule("jump record", "jump", "record"), _Rule("drop", "drop", "discard")],
        "refuse": [
            _Rule("jump record", "jump", "record"),
            _Rule("meta l4proto tcp reject with tcp reset", "reject", "refuse tcp"),
            _Rule("reject with icmpx type admin-prohibited", "reject", "refuse"),
        ],
        "output": [
            _Rule(f"ip daddr {ENGINE_RESOLVER} goto refuse", "goto", "engine resolver"),
            _Rule('oif "lo" accept', "accept", "loopback"),
            _Rule(f"icmpv6 type {_NEIGHBOURS} accept", "accept", "neighbours"),
            *_honest(),
            # Only to those who may call: a session can have the kernel take other packets for replies.
            *(
                _Rule(
                    f"{_family(address.version)} daddr {address} ct direction reply "
                    "ct state established,related accept",
                    "accept",
                    f"replies {address}",
                )
                for address in rules.callers
            ),
            *(_opened(one) for one in rules.opened),
            *([] if rules.gateway is None else [_opened(rules.gateway, "tcp")]),
            _Rule("ip daddr @refused4 goto refuse", "goto", "refused4"),
            _Rule("ip6 daddr @refused6 goto refuse", "goto", "refused6"),
            *(_denied(version) for version in _VERSIONS if rules.denied),
            _Rule("meta nfproto { ipv4, ipv6 } accept", "accept", "internet"),
        ],
        "input": [
            _Rule('iif "lo" accept', "accept", "loopback"),
            _Rule("ct state established,related accept", "accept", "replies"),
            _Rule(f"icmpv6 type {_NEIGHBOURS} ip6 hoplimit 255 accept", "accept", "neighbours"),
            *(
                _Rule(f"{_family(address.version)} saddr {address} accept", "accept", f"caller {address}")
                for address in rules.callers
            ),
        ],
        "forward": [],
    }


def _honest() -> list[_Rule]:
    """Return rules that pass only packets going to the destination in their header, in a protocol that is
    judged.

    IPv6 lets a program choose any source (IPV6_FREEBIND). Source routes (RFC 791, RFC 8754) do not need a
    capability either, and name the real destination in an option or extension header after the judged one.
    """
    return [
        _Rule("fib saddr . oif type != local goto discard", "goto", "source of its own"),
        _Rule("ip hdrlength != 5 goto discard", "goto", "no options"),
        _Rule("ip6 nexthdr != { tcp, udp, ipv6-icmp } goto discard", "goto", "no extension headers"),
        _Rule("meta l4proto != { tcp, udp, icmp, ipv6-icmp } goto refuse", "goto", "known protocols"),
    ]


def _denied(version: int) -> _Rule:
    to = f"{_family(version)} daddr"
    return _Rule(f"{to} @denied{version} {to} != @allowed{version} goto refuse", "goto", f"denied{version}")


def _lead(gateway: Opening) -> _Rule:
    address, port = GATEWAY
    to = f"{gateway.network.network_address}:{gateway.port}"
    return _Rule(f"ip daddr {address} tcp dport {port} dnat ip to {to}", "dnat", f"gateway {to}")


def _leads(items: list[dict[str, Any]], rules: NetworkRules) -> bool:
    """Check that nft's listing leads to the gateway, and nothing else does."""
    chain: dict[str, Any] = next(
        (one["chain"] for one in items if one.get("chain", {}).get("name") == "lead"), {}
    )
    expressions = [one["rule"].get("expr", []) for one in items if one.get("rule", {}).get("chain") == "lead"]
    targets = [part["dnat"] for expression in expressions for part in expression if "dnat" in part]
    gateway = rules.gateway
    return (
        gateway is not None
        and (chain.get("type"), chain.get("hook")) == ("nat", "output")
        and [(one.get("addr"), one.get("port")) for one in targets]
        == [(str(gateway.network.network_address), gateway.port)]
    )


def _opened(one: Opening, protocols: str = "{ tcp, udp }") -> _Rule:
    to = f"{_family(one.network.version)} daddr {one.network}"
    ports = "" if one.port is None else f" meta l4proto {protocols} th dport {one.port}"
    return _Rule(f"{to}{ports} accept", "accept", f"open {one}")


def _family(version: int) -> str:
    return "ip" if version == 4 else "ip6"


def _set(name: str, networks: list[Network]) -> str:
    kind = "ipv4_addr" if name.endswith("4") else "ipv6_addr"
    elements = ", ".join(str(network) for network in _collapsed(networks))
    return (
        f"set {name} {{ type {kind}; flags interval; {f'elements = {{ {elements} }};' if elements else ''} }}"
    )


def _chain(name: str, hook: str, rules: Iterable[_Rule]) -> str:
    return "\n".join([f"chain {name} {{", *([hook] if hook else []), *map(str, rules), "}"])


def _of_version(networks: Iterable[Network], version: int) -> list[Network]:
    return [network for network in networks if network.version == version]


def _collapsed(networks: list[Network]) -> list[Network]:
    # All of one version: what the annotation of the library asks for cannot be said here.
    return list(collapse_addresses(networks))  # type: ignore[type-var]


def _merged(networks: list[Network]) -> list[tuple[int, int]]:
    return _joined((int(one[0]), int(one[-1])) for one in networks)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges without overlaps and without neighbours, in order: nft lists them in its own way."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _ranges(elements: object) -> list[tuple[int, int]]:
    return _joined(_range(item) for item in elements) if isinstance(elements, list) else []


def _range(item: object) -> tuple[int, int]:
    match item:
        case str(address):
            return int(ip_address(address)), int(ip_address(address))
        case {"prefix": {"addr": address, "len": length}}:
            network = ip_network(f"{address}/{length}")
            return int(network[0]), int(network[-1])
        case {"range": [first, last]}:
            return int(ip_address(first)), int(ip_address(last))
        case _:
            return -1, -1


def _verdict(rule: Mapping[str, object]) -> str:
    expression = rule.get("expr")
    last = expression[-1] if isinstance(expression, list) and expression else {}
    return next(iter(last), "") if isinstance(last, dict) else ""


def _sets(listed: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = [item["set"] for item in _items(listed) if isinstance(item, dict) and "set" in item]
    return [item for item in found if isinstance(item, dict)]


def _items(listed: Mapping[str, object]) -> Iterator[object]:
    found = listed.get("nftables")
    yield from found if isinstance(found, list) else ()


def _listed(raw: Mapping[str, object], key: str) -> list[object]:
    value = raw[key]
    if not isinstance(value, list) or len(value) > MOST:
        raise ValueError(f"{key!r} must be a list of at most {MOST}")
    return value


def _text(item: object) -> str:
    # Without a zone: a number or a name of an interface is not an address of a packet.
    if not isinstance(item, str) or "%" in item:
        raise ValueError("an address must be text without a zone")
    return item


def _gateway(item: object) -> Opening:
    found = _opening(item)
    if found.network.version != 4 or found.network.num_addresses != 1 or found.port is None:
        raise ValueError("'gateway' must be one IPv4 address and a port")
    return found


def _opening(item: object) -> Opening:
    if not isinstance(item, dict) or set(item) != {"network", "port"}:
        raise ValueError("an item of 'opened' must be {network, port}")
    port = item["port"]
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536):
        raise ValueError("'port' must be a port, or null for all")
    return Opening(ip_network(_text(item["network"])), port)
