"""The rights of a session at the gateway: a value, its form in a file for each source address, and the places
of the gateway in a session, which are fixed because restored memory has them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

from holdfast.runtime.gateway.names import Address, Domain, canonical, parsed_address, with_port

Network = IPv4Network | IPv6Network

_PORTS = {"https": 443, "http": 80}
ADDRESS, PORT = "192.0.2.1", 3128
"""An address of TEST-NET-1 (RFC 5737), which belongs to no one: the session's own rules redirect it."""
PROXY = f"http://{ADDRESS}:{PORT}"

TRUST = "/opt/holdfast/trust"
"""Folder of the host as a session with secrets sees it. Its image has a link of the same name to the system's
own roots, so that a program that remembers this place still finds roots where nothing is mounted.
"""
ROOTS = f"{TRUST}/roots.pem"
TRUST_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
)
"""Variables in which OpenSSL and Python, requests, curl, pip, Node.js and git look for trusted roots."""


@dataclass(frozen=True, slots=True)
class SecretHost:
    """A host that receives a secret: over TLS, or in the clear if the scheme is http."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> SecretHost:
        """Return the host for `HOST`, `HOST:PORT` or `http://HOST[:PORT]`.

        Raises:
            ValueError: it is malformed.
        """
        stripped = text.strip()
        scheme, _, rest = stripped.rpartition("://")
        if scheme not in ("", *_PORTS):
            raise ValueError("only https:// or http:// can precede a host")
        host, port = with_port(rest, _PORTS[scheme or "https"])
        return cls(scheme or "https", host, port or 0)

    def __str__(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http://' if self.scheme == 'http' else ''}{host}{port}"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value for which the session only has a placeholder, and the hosts that receive it."""

    name: str
    placeholder: str
    hosts: tuple[SecretHost, ...]
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NetworkOpening:
    """A network that is open although it lies in a refused one: one port, or all if that is None."""

    network: Network
    port: int | None


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The policy of one session. With `only_domains`, these and the openings are all it reaches.

    `opened_names` are names and ports whose addresses are among the openings; `names` have addresses from
    the home in place of a resolver's. `denied` are networks that are refused as well, but for `allowed`; a
    session of domains also reaches `allowed`.
    """

    session: str
    only_domains: bool = False
    domains: tuple[Domain, ...] = ()
    secrets: tuple[Secret, ...] = ()
    refused: tuple[Network, ...] = ()
    denied: tuple[Network, ...] = ()
    allowed: tuple[Network, ...] = ()
    opened: tuple[NetworkOpening, ...] = ()
    opened_names: tuple[tuple[str, int], ...] = ()
    names: tuple[tuple[str, Address], ...] = ()

    def secrets_for(self, scheme: str, host: str, port: int) -> tuple[Secret, ...]:
        """Return the secrets that a host in its canonical form receives."""
        place = SecretHost(scheme, host, port)
        return tuple(secret for secret in self.secrets if place in secret.hosts)

    def dump(self) -> str:
        """Return the policy as `load` takes it."""
        fields = {
            "session": self.session,
            "only_domains": self.only_domains,
            "domains": [str(one) for one in self.domains],
            "secrets": [
                {
                    "name": one.name,
                    "placeholder": one.placeholder,
                    "hosts": [str(host) for host in one.hosts],
                    "value": one.value,
                }
                for one in self.secrets
            ],
            "refused": [str(one) for one in self.refused],
            "denied": [str(one) for one in self.denied],
            "allowed": [str(one) for one in self.allowed],
            "opened": [{"network": str(one.network), "port": one.port} for one in self.opened],
            "opened_names": [[name, port] for name, port in self.opened_names],
            "names": [[name, str(address)] for name, address in self.names],
        }
        return json.dumps(fields)


def load(text: str) -> SessionRules:
    """Return a policy from its file.

    Raises:
        ValueError, KeyError, TypeError: it is not valid.
    """
    fields: dict[str, Any] = json.loads(text)
    return SessionRules(
        session=str(fields["session"]),
        only_domains=bool(fields["only_domains"]),
        domains=tuple(map(Domain.parse, fields["domains"])),
        secrets=tuple(
            Secret(one["name"], one["placeholder"], tuple(map(SecretHost.parse, one["hosts"])), one["value"])
            for one in fields["secrets"]
        ),
        refused=tuple(map(ip_network, fields["refused"])),
        # Policies of sessions that an earlier version started have neither.
        denied=tuple(map(ip_network, fields.get("denied", ()))),
        allowed=tuple(map(ip_network, fields.get("allowed", ()))),
        opened=tuple(NetworkOpening(ip_network(one["network"]), one["port"]) for one in fields["opened"]),
        opened_names=tuple((canonical(name), int(port)) for name, port in fields["opened_names"]),
        names=tuple((canonical(name), ip_address(address)) for name, address in fields["names"]),
    )


class Policies:
    """The policies in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int, int], SessionRules | None]] = {}

    def of(self, peer: str) -> SessionRules | None:
        """Return the policy for a source address; None if it has none. An invalid file counts as none."""
        address = parsed_address(peer)
        if address is None:
            return None
        path = self._folder / f"{address}.json"
        try:
            found = path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            kept = self._known.get(str(address))
            if kept is None or kept[0] != stamp:
                kept = (stamp, _read(path))
                self._known[str(address)] = kept
            return kept[1]
        except OSError:
            self._known.pop(str(address), None)
            return None


def _read(path: Path) -> SessionRules | None:
    try:
        return load(path.read_text())
    except (ValueError, KeyError, TypeError):
        return None
