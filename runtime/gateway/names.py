"""Host names: their canonical form, and which of them a session's domains cover. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address

WEB = (80, 443)
"""Ports of a domain without one."""
# RFC 1123, plus underscores, which occur in host names all the same.
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_][a-z0-9_-]{0,62}(?:\.[a-z0-9_][a-z0-9_-]{0,62})*")


def canonical(host: str) -> str:
    """Return a name or address in canonical form: lower case, without brackets and the root's dot.

    Raises:
        ValueError: it is neither.
    """
    text = host.lower()
    address = parsed_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    if address is not None:
        return str(address)
    name = text.removesuffix(".")
    # To some resolvers a name that ends in a number is an address in disguise: 127.1, 0x7f.1, 2130706433.
    last = name.rpartition(".")[2]
    if not _NAME.fullmatch(name) or last.isdecimal() or re.fullmatch(r"0x[0-9a-f]*", last):
        raise ValueError("it is not a valid host name")
    return name


def parsed_address(text: str) -> Address | None:
    """Return an address in its usual form, an IPv4-mapped one as IPv4; None if it is not valid."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        return None if found.scope_id else found.ipv4_mapped or found
    return found


def with_port(text: str, default: int | None) -> tuple[str, int | None]:
    """Return HOST or HOST:PORT as name and port.

    Raises:
        ValueError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        return canonical(text), default
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError(f"its port is not valid: {port[:20]!r}")
    return canonical(host), int(port)


@dataclass(frozen=True, slots=True)
class Domain:
    """A name, or all names below it (not itself), on one port or on the web's ports."""

    name: str
    below: bool = False
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Domain:
        """Return the domain for `api.example.com`, `*.example.com` or either with `:PORT`.

        Raises:
            ValueError: it is malformed.
        """
        stripped = text.strip()
        below = stripped.startswith("*.")
        name, port = with_port(stripped[2:] if below else stripped, None)
        if parsed_address(name) is not None:
            raise ValueError("it is an address, not a name")
        return cls(name, below, port)

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{'*.' if self.below else ''}{self.name}{port}"

    def covers(self, host: str, port: int) -> bool:
        """Return whether the domain covers a host in its canonical form."""
        if port not in (WEB if self.port is None else (self.port,)):
            return False
        return host.endswith(f".{self.name}") if self.below else host == self.name
