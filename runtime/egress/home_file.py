"""The destinations that all sessions of a home may reach besides the internet: `network.json`.

`found` are the machine's own sources of packages that sessions could not otherwise reach: written by
`holdfast image build`, or when the first session is made. `allow` is for people to add to, `close` for
entries of `found` they do not want. For the gateway there are `ca`, a file with more roots for verifying
servers, and `hosts`, addresses of names.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.egress import host_network, package_hosts, reach
from holdfast.runtime.gateway.names import Address, canonical
from holdfast.runtime.sessions.network_exceptions import Allowed

NAME = "network.json"
_LISTS = ("found", "allow", "close")


@dataclass(frozen=True, slots=True)
class HomeNetwork:
    """The destinations that were found, those a person added, and those of the former a person closed."""

    found: tuple[Allowed, ...] = ()
    allow: tuple[Allowed, ...] = ()
    close: tuple[Allowed, ...] = ()
    ca: str | None = None
    hosts: tuple[tuple[str, Address], ...] = ()

    @property
    def every(self) -> tuple[Allowed, ...]:
        """The open destinations, each once."""
        found = (item for item in self.found if item not in self.close)
        return tuple(dict.fromkeys((*found, *self.allow)))


def read(home: Home) -> HomeNetwork:
    """Return the home's settings, written now if there are none yet.

    Raises:
        StoreError: the file is not readable, or is not of this form.
    """
    path = home.root / NAME
    try:
        config = json.loads(path.read_text())
        found, allow, close = (_items(config, key) for key in _LISTS)
        return HomeNetwork(found, allow, close, _ca(config), _hosts(config))
    except FileNotFoundError:
        return _write(home, HomeNetwork(_private(package_hosts.find())))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, InvalidArgument) as error:
        raise StoreError(
            f"cannot use {path}: {error}",
            hint='its form is {"found": ["HOST:PORT", …], "allow": […], "close": […]}',
        ) from error


def refresh(home: Home) -> HomeNetwork:
    """Look for the sources of packages again; additions of people stay.

    Raises:
        StoreError: the file cannot be read or written.
    """
    config = read(home) if (home.root / NAME).exists() else HomeNetwork()
    return _write(home, replace(config, found=_private(package_hosts.find(ask_npm=True))))


def ways_out(home: Home) -> list[Allowed]:
    """Return the proxies among the open destinations: sessions reach whatever they reach.

    Raises:
        StoreError: the file cannot be used.
    """
    known = package_hosts.proxies()
    return [item for item in read(home).every if item in known]


def roots(home: Home) -> str | None:
    """Return the roots that the home adds, as PEM; None if it adds none.

    Raises:
        StoreError: they cannot be read.
    """
    named = read(home).ca
    if named is None:
        return None
    try:
        return Path(named).expanduser().read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {named}, which {NAME} names as `ca`: {error}") from error


def lookup(name: str) -> list[str]:
    """Return the addresses of a name, as this machine resolves it; empty if it has none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found if "%" not in str(entry[4][0])))


def _private(items: list[Allowed]) -> tuple[Allowed, ...]:
    """Return those that the default rules would refuse. Loopback cannot be reached by a session anyway."""
    machine = host_network.look()
    kept = []
    for item in items:
        addresses = [str(one.network.network_address) for one in item.openings(lookup)]
        outside = [address for address in addresses if not _loopback(address)]
        if any(reach.closed(address, machine) for address in outside):
            kept.append(item)
    return tuple(kept)


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _items(config: object, key: str) -> tuple[Allowed, ...]:
    found = config.get(key, []) if isinstance(config, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"{key} is not a list of texts")
    return tuple(Allowed.parse(item) for item in found)


def _ca(config: dict[str, object]) -> str | None:
    named = config.get("ca")
    if named is not None and not isinstance(named, str):
        raise ValueError("ca is not the path of a file")
    return named


def _hosts(config: dict[str, object]) -> tuple[tuple[str, Address], ...]:
    found = config.get("hosts", {})
    if not isinstance(found, dict):
        raise ValueError("hosts does not map names to addresses")
    return tuple((canonical(name), ip_address(address)) for name, address in found.items())


def _write(home: Home, config: HomeNetwork) -> HomeNetwork:
    path = home.root / NAME
    lists = zip(_LISTS, (config.found, config.allow, config.close), strict=True)
    kept: dict[str, object] = {key: [str(one) for one in items] for key, items in lists}
    if config.ca is not None:
        kept["ca"] = config.ca
    if config.hosts:
        kept["hosts"] = {name: str(address) for name, address in config.hosts}
    text = json.dumps(kept)
    try:
        private_files.replace(path, text + "\n")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return config
