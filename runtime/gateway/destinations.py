"""Decides where a session may connect through the gateway: by name first, then by the name's addresses. Pure.

The gateway is on the host's network, which reaches more than a session may: first of all, its own loopback.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network

from holdfast.runtime.gateway.names import Address, parsed_address
from holdfast.runtime.gateway.session_rules import SessionRules

# Closed whatever is opened: from there they would reach the host itself, or the cloud's metadata.
_NEVER = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "224.0.0.0/4",
            "::/128",
            "::1/128",
            "fe80::/10",
            "ff00::/8",
        ),
    )
)


def named(policy: SessionRules, host: str, port: int) -> bool:
    """Return whether a host in its canonical form may be reached at any internet address it has."""
    if not policy.only_domains:
        return True
    given = any(
        place.host == host and place.port == port for secret in policy.secrets for place in secret.hosts
    )
    return given or any(domain.covers(host, port) for domain in policy.domains)


def by_name_alone(policy: SessionRules, host: str, port: int) -> bool:
    """Return whether a host is reached because of its name, which then must be the one that is spoken to."""
    return policy.only_domains and named(policy, host, port)


def worth_asking(policy: SessionRules, host: str, port: int) -> bool:
    """Return whether to look up a name, which only a reachable one is: the query itself would leak it."""
    opened = (host, port) in policy.opened_names or host in (name for name, _ in policy.names)
    return opened or named(policy, host, port) or parsed_address(host) is not None


def reachable(policy: SessionRules, host: str, port: int, addresses: Iterable[Address]) -> list[Address]:
    """Return those of a host's addresses that may be connected to."""
    by_name = named(policy, host, port)
    return [
        address
        for address in addresses
        if not _within(address, _NEVER)
        and (_opened(policy, address, port) or (by_name and not _within(address, policy.refused)))
    ]


def refusal(policy: SessionRules, host: str, port: int) -> str:
    """Return the line that explains a refusal to the program whose request it was."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    session = policy.session
    address = parsed_address(host)
    if address is not None and _within(address, _NEVER):
        return f"holdfast: {place} is the gateway's machine, a metadata service or unassigned: never allowed"
    if named(policy, host, port):
        return (
            f"holdfast: {place} is at an address that this session may not reach; "
            f"`holdfast network {session} --allow {place}` allows it"
        )
    option = f"--allow {place}" if address is not None else f"--domain {host if port in (80, 443) else place}"
    return (
        f"holdfast: {place} is not allowed for this session; `holdfast network {session} {option}` allows it"
    )


def _opened(policy: SessionRules, address: Address, port: int) -> bool:
    return any(
        address.version == one.network.version and address in one.network and one.port in (None, port)
        for one in policy.opened
    )


def _within(address: Address, networks: Iterable[object]) -> bool:
    return any(address in network for network in networks)  # type: ignore[operator]
