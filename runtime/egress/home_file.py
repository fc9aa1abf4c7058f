"""What all sessions of a home may reach besides the internet: `network.json`.

`found` are the machine's own sources of packages, as far as they are where a session may not go: written by
`holdfast image build`, or when the first session is made. `allow` is for people to add to, `close` for what
of `found` they do not want.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, replace

from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.egress import host_network, package_hosts, reach
from holdfast.runtime.egress.exceptions import Allowed
from holdfast.runtime.home import Home

NAME = "network.json"


@dataclass(frozen=True, slots=True)
class HomeNetwork:
    """What was found, what a person added, and what of the former a person closed."""

    found: tuple[Allowed, ...] = ()
    allow: tuple[Allowed, ...] = ()
    close: tuple[Allowed, ...] = ()

    @property
    def every(self) -> tuple[Allowed, ...]:
        """What is open, each once."""
        found = (item for item in self.found if item not in self.close)
        return tuple(dict.fromkeys((*found, *self.allow)))


def read(home: Home) -> HomeNetwork:
    """What the home says; made now if it says nothing yet.

    Raises:
        StoreError: the file is not readable, or is not of this form.
    """
    path = home.root / NAME
    try:
        told = json.loads(path.read_text())
        return HomeNetwork(_items(told, "found"), _items(told, "allow"), _items(told, "close"))
    except FileNotFoundError:
        return _write(home, HomeNetwork(_private(package_hosts.find())))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, InvalidArgument) as error:
        raise StoreError(
            f"cannot use {path}: {error}",
            hint='it is {"found": ["HOST:PORT", …], "allow": […], "close": […]}',
        ) from error


def refresh(home: Home) -> HomeNetwork:
    """Look for the sources of packages again; what people added stays. Raises StoreError."""
    told = read(home) if (home.root / NAME).exists() else HomeNetwork()
    return _write(home, replace(told, found=_private(package_hosts.find(ask_npm=True))))


def ways_out(home: Home) -> list[Allowed]:
    """The proxies among what is open: whatever they reach, sessions do. Raises StoreError."""
    known = package_hosts.proxies()
    return [item for item in read(home).every if item in known]


def lookup(name: str) -> list[str]:
    """The addresses of a name, as this machine finds them; none if it has none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(one[4][0]) for one in found if "%" not in str(one[4][0])))


def _private(items: list[Allowed]) -> tuple[Allowed, ...]:
    """Those that the default rules would refuse. Loopback is nothing a session could reach anyway."""
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


def _items(told: object, key: str) -> tuple[Allowed, ...]:
    found = told.get(key, []) if isinstance(told, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"{key} is not a list of texts")
    return tuple(Allowed.parse(item) for item in found)


def _write(home: Home, told: HomeNetwork) -> HomeNetwork:
    path = home.root / NAME
    lists = {"found": told.found, "allow": told.allow, "close": told.close}
    text = json.dumps({key: [str(one) for one in items] for key, items in lists.items()})
    aside = path.with_name(f".{NAME}.{os.getpid()}")
    try:
        aside.touch(mode=0o600)
        aside.write_text(text + "\n")
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return told
