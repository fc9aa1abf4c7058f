"""Exceptions to a session's network rules: HOST:PORT, where HOST is an address, a network or a name. Pure.

Names are resolved when the rules are made, by a function that the caller passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_network

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.snapshots.checkpointer.egress.netrules import Network, Opening

Lookup = Callable[[str], list[str]]
"""A function that returns the addresses of a name as text, none if it has none."""

MOST = 100
"""The most exceptions for one session."""
# RFC 1123, and underscores, which occur in host names nevertheless.
_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?"
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """One exception. Its text is normalized, so that equal exceptions are equal texts."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """Parse `name:443`, `10.1.2.3:5432`, `10.0.0.0/8:443` or `[fd00::1]:443`.

        Raises:
            InvalidArgument: the text has another form.
        """
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise _refused(text, "it is not HOST:PORT")
        network = _network(host[1:-1] if bracketed else host)
        if network is not None:
            if (network.version == 6) != bracketed:
                raise _refused(text, "only an IPv6 address is written in brackets, and always")
            return cls(_address(network), int(port))
        if bracketed or not _NAME.fullmatch(host) or re.fullmatch(r"[0-9./]*", host):
            raise _refused(text, "its host is neither an address, a network nor a name")
        return cls(host.lower().removesuffix("."), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_name(self) -> bool:
        """True if the host must be resolved."""
        return _network(self.host) is None

    def openings(self, lookup: Lookup) -> list[Opening]:
        """Return the addresses and ports it opens; none if it is a name without an address."""
        network = _network(self.host)
        found = [network] if network is not None else [_network(one) for one in lookup(self.host)]
        return [Opening(one, self.port) for one in found if one is not None]


def openings(items: Iterable[Allowed], lookup: Lookup) -> tuple[list[Opening], list[str]]:
    """Return what these exceptions open, each once, and the names among them that have no address."""
    found: dict[Opening, None] = {}
    unknown: list[str] = []
    for item in items:
        opened = item.openings(lookup)
        found.update(dict.fromkeys(opened))
        if not opened:
            unknown.append(item.host)
    return list(found), unknown


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False) if "%" not in text else None
    except ValueError:
        return None


def _address(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _refused(text: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"cannot allow '{plain(text, 100)}': {why}", hint="for example --allow db.internal:5432"
    )
