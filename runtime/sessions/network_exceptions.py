"""Additional destinations that a session can, or cannot, reach besides its kind of network. Pure.

`Allowed` is HOST:PORT, where HOST is an address, a network or a name: it is reached wherever it is. An
address or a network without a port is exempt from denials, and opens nothing private.
`denied` reads addresses and networks that are closed. Names are resolved when the rules are made, by a
function that the caller passes. The owner of a name chooses its addresses, so that a name opens no denied
address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.snapshots.checkpointer.egress.netrules import Network, Opening

Lookup = Callable[[str], list[str]]
"""A function that returns the addresses of a name as text, none if it has none."""

MOST = 100
"""The most exceptions for one session, and the most denied networks."""
# RFC 1123, and underscores, which occur in host names nevertheless.
_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?"
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """One exception. Its text is normalized, so that equal exceptions are equal texts."""

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """Parse `name:443`, `10.1.2.3:5432`, `10.0.0.0/8:443` or `[fd00::1]:443`; `1.1.1.1`, `[2001:db8::]`.

        Raises:
            InvalidArgument: the text has another form.
        """
        if (whole := _without_port(text.strip())) is not None:
            return cls(network_text(whole), None)
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise _refused(text, "it is not HOST:PORT")
        network = _network(host[1:-1] if bracketed else host)
        if network is not None:
            if (network.version == 6) != bracketed:
                raise _refused(text, "only an IPv6 address is written in brackets, and always")
            return cls(network_text(network), int(port))
        if bracketed or not _NAME.fullmatch(host) or re.fullmatch(r"[0-9./]*", host):
            raise _refused(text, "its host is neither an address, a network nor a name")
        return cls(host.lower().removesuffix("."), int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def is_name(self) -> bool:
        """True if the host must be resolved; it has a port then."""
        return _network(self.host) is None

    @property
    def undenied(self) -> Network | None:
        """The network that is exempt from denials; None if it has a port."""
        return _network(self.host) if self.port is None else None

    def openings(self, lookup: Lookup) -> list[Opening]:
        """Return the addresses and ports it opens: an empty list without a port, or for an unknown name."""
        if self.port is None:
            return []
        network = _network(self.host)
        found = [network] if network is not None else [_network(one) for one in lookup(self.host)]
        return [Opening(one, self.port) for one in found if one is not None]


def openings(items: Iterable[Allowed], lookup: Lookup) -> tuple[list[Opening], list[str]]:
    """Return the destinations that these exceptions open, each once, and the names among them without an
    address."""
    found: dict[Opening, None] = {}
    unknown: list[str] = []
    for item in items:
        opened = item.openings(lookup)
        found.update(dict.fromkeys(opened))
        if not opened and item.port is not None:
            unknown.append(item.host)
    return list(found), unknown


def denied(text: str) -> Network:
    """Parse an address or a network, of IPv6 with or without brackets.

    Raises:
        InvalidArgument: it is neither.
    """
    bare = text.strip()
    found = _network(bare[1:-1] if bare.startswith("[") and bare.endswith("]") else bare)
    if found is None:
        raise InvalidArgument(
            f"cannot deny '{plain(text, 100)}': it is neither an address nor a network",
            hint="for example --deny 1.1.1.1 or --deny 10.0.0.0/8; names are for --network domains",
        )
    return _unmapped(found)


def denied_texts(places: Iterable[str | Network]) -> tuple[str, ...]:
    """Return places and networks in one form, each once. Raises as `denied` does."""
    networks = (denied(place) if isinstance(place, str) else place for place in places)
    return tuple(dict.fromkeys(map(network_text, networks)))


def _unmapped(network: Network) -> Network:
    """Return the IPv4 network that an IPv4-mapped one (RFC 4291) stands for."""
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((int(mapped), network.prefixlen - 96))
    return network


def _without_port(text: str) -> Network | None:
    bracketed = text.startswith("[") and text.endswith("]")
    found = _network(text[1:-1] if bracketed else text)
    return None if found is None or (found.version == 6) != bracketed else _unmapped(found)


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False) if "%" not in text else None
    except ValueError:
        return None


def network_text(network: Network) -> str:
    """Return a network as people write it: one address without the length of its prefix."""
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _refused(text: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot allow '{plain(text, 100)}': {why}", hint="for example --allow db.internal:5432"
    )
