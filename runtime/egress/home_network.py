"""The destinations that all sessions of a home can reach besides the internet: `network.json`.

`found` are the machine's own sources of packages that sessions could not otherwise reach: written by
`holdfast image build`, or when the first session is made. `allow` is for people to add to, `close` for
entries of `found` they do not want. `unknown` are sources whose names had no answer yet; they are looked up
again when a session starts, a minute later at the earliest. For the gateway there are `ca`, a file with more
roots for verifying servers, and `hosts`, addresses of names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.egress import host_network, package_hosts
from holdfast.runtime.gateway.names import Address, canonical
from holdfast.runtime.sessions.network_exceptions import Allowed

NAME = "network.json"
_LISTS = ("found", "allow", "close", "unknown")
GLANCE = 1.0
"""Seconds in which names are looked up while a session starts."""
SEARCH = 20.0
"""Seconds in which they are when a person asks for it."""
AGAIN = 60.0
"""Seconds after which those without an answer are looked up again."""


@dataclass(frozen=True, slots=True)
class HomeNetwork:
    """The destinations found, those a person added, and the found ones that a person closed."""

    found: tuple[Allowed, ...] = ()
    allow: tuple[Allowed, ...] = ()
    close: tuple[Allowed, ...] = ()
    ca: str | None = None
    hosts: tuple[tuple[str, Address], ...] = ()
    unknown: tuple[Allowed, ...] = ()

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
        found, allow, close, unknown = (_items(config, key) for key in _LISTS)
        known = HomeNetwork(found, allow, close, _ca(config), _hosts(config), unknown)
        due = unknown and time.time() - path.stat().st_mtime > AGAIN
    except FileNotFoundError:
        private, unknown = _private(package_hosts.find(), GLANCE)
        return _write(home, HomeNetwork(private, unknown=unknown))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, InvalidArgument) as error:
        raise StoreError(
            f"cannot use {path}: {error}",
            hint='its form is {"found": ["HOST:PORT", …], "allow": […], "close": […]}',
        ) from error
    if not due:
        return known
    private, unknown = _private(known.unknown, GLANCE)
    return _write(home, replace(known, found=(*known.found, *private), unknown=unknown))


def refresh(home: Home) -> HomeNetwork:
    """Look for the sources of packages again; people's additions stay.

    Raises:
        StoreError: the file cannot be read or written.
    """
    config = read(home) if (home.root / NAME).exists() else HomeNetwork()
    private, unknown = _private(package_hosts.find(ask_npm=True), SEARCH)
    return _write(home, replace(config, found=private, unknown=unknown))


def ways_out(home: Home) -> list[Allowed]:
    """Return the proxies among the open destinations: sessions reach everything behind them.

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


def _private(items: Iterable[Allowed], seconds: float) -> tuple[tuple[Allowed, ...], tuple[Allowed, ...]]:
    """Return the destinations that the default rules would refuse, and those whose names were not resolved in
    time.

    Loopback cannot be reached by a session anyway.
    """
    machine, items = host_network.look(), list(items)
    known = host_network.looked_up((item.host for item in items if item.is_name), seconds)
    kept, unknown = list[Allowed](), list[Allowed]()
    for item in items:
        if item.is_name and known[item.host] is None:
            unknown.append(item)
            continue
        openings = item.openings(lambda name: known[name] or [])
        addresses = [str(one.network.network_address) for one in openings]
        outside = [address for address in addresses if not _loopback(address)]
        if any(host_network.closed(address, machine) for address in outside):
            kept.append(item)
    return tuple(kept), tuple(unknown)


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _items(config: object, key: str) -> tuple[Allowed, ...]:
    found = config.get(key, []) if isinstance(config, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"{key} is not a list of texts")
    items = tuple(Allowed.parse(item) for item in found)
    if without := next((item for item in items if item.port is None), None):
        raise ValueError(f"{without} of {key} lacks a port")
    return items


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
    lists = zip(_LISTS, (config.found, config.allow, config.close, config.unknown), strict=True)
    kept: dict[str, object] = {
        key: [str(one) for one in items] for key, items in lists if items or key != "unknown"
    }
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
