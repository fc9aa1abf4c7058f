"""Names of hosts: their one form, and which a session's domains cover. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address

WEB = (80, 443)
"""Ports of a domain that names none."""
# RFC 1123, with underscores, which occur in names of hosts all the same.
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_][a-z0-9_-]{0,62}(?:\.[a-z0-9_][a-z0-9_-]{0,62})*")


def canonical(host: str) -> str:
    """A name or address as it is compared: in lower case, without brackets and the root's dot.

    Raises:
        ValueError: it is neither.
    """
    text = host.lower()
    address = parsed_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    if address is not None:
        return str(address)
    name = text.removesuffix(".")
    # What ends in a number is an address in disguise to some resolvers: 127.1, 0x7f.1, 2130706433.
    last = name.rpartition(".")[2]
    if not _NAME.fullmatch(name) or last.isdecimal() or re.fullmatch(r"0x[0-9a-f]*", last):
        raise ValueError("it is not the name of a host")
    return name


def parsed_address(text: str) -> Address | None:
    """An address in its usual form, an IPv4 one also as IPv6 writes it; None if it is none."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        return None if found.scope_id else found.ipv4_mapped or found
    return found


def with_port(text: str, default: int | None) -> tuple[str, int | None]:
    """HOST or HOST:PORT as name and port.

    Raises:
        ValueError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        return canonical(text), default
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError(f"its port is not one: {port[:20]!r}")
    return canonical(host), int(port)


@dataclass(frozen=True, slots=True)
class Domain:
    """A name, or all names below it (not itself), on one port or on those of the web."""

    name: str
    below: bool = False
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Domain:
        """From `api.example.com`, `*.example.com` or either with `:PORT`.

        Raises:
            ValueError: it is none of these.
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
        """Whether a host in its canonical form is one of these."""
        if port not in (WEB if self.port is None else (self.port,)):
            return False
        return host.endswith(f".{self.name}") if self.below else host == self.name
