"""The values of secrets, on the host: one file for each placeholder, readable by the home's owner alone.

Sessions and snapshots name placeholders. A value stays as long as one of them does. The hosts that receive it
are those kept here, whatever a session or snapshot says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.errors import StoreError
from holdfast.runtime.egress.secret import Given
from holdfast.runtime.gateway import exchange
from holdfast.runtime.gateway.session_rules import Secret, SecretHost

FOLDER = "gateway/secrets"
USER = 4_018_128
"""User of the gateway if the home is root's: a number no user has, nor any range of subordinate ids."""


def keep(home: Home, given: Iterable[Given]) -> None:
    """Keep these.

    Raises:
        StoreError: they cannot be written.
    """
    for one in given:
        kept = {"name": one.name, "hosts": list(map(str, one.hosts)), "value": one.value}
        write_private(_path(home, one.placeholder), json.dumps(kept))


def find(home: Home, placeholder: str) -> Secret | None:
    """Return the secret of a placeholder; None if this home does not have it.

    Raises:
        StoreError: it cannot be read.
    """
    if not exchange.is_placeholder(placeholder):
        return None
    path = _path(home, placeholder)
    try:
        fields = json.loads(path.read_text())
        return Secret(
            fields["name"], placeholder, tuple(map(SecretHost.parse, fields["hosts"])), fields["value"]
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"cannot use {path}: it is damaged", hint="remove it, and create the session again"
        ) from error


def kept(home: Home) -> Iterator[tuple[str, float]]:
    """Return the placeholders with values here, and since when, in seconds since the epoch."""
    for path in sorted((home.root / FOLDER).glob("[!.]*")):
        with suppress(OSError):
            yield path.name, path.stat().st_mtime


def values(home: Home) -> dict[str, str]:
    """Return all values by name; of several with one name each is followed by its placeholder.

    Raises:
        StoreError: one cannot be read.
    """
    every = [secret for placeholder, _ in kept(home) if (secret := find(home, placeholder)) is not None]
    names = [one.name for one in every]
    return {
        one.name if names.count(one.name) == 1 else f"{one.name} {one.placeholder}": one.value
        for one in every
    }


def forget(home: Home, placeholder: str) -> None:
    """Remove a value.

    Raises:
        StoreError: it cannot be removed.
    """
    try:
        if exchange.is_placeholder(placeholder):
            _path(home, placeholder).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot remove a secret of {home.root}: {error.strerror or error}") from error


def user() -> int:
    """Return the user of the gateway, who reads files that only their owner may."""
    return os.geteuid() or USER


def owner() -> int | None:
    """Return the user to whom the gateway's files are given; None if they are its own already."""
    return USER if os.geteuid() == 0 else None


def write_private(path: Path, text: str, owner: int | None = None) -> None:
    """Write a file that only its owner reads, atomically.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        for folder in (path.parent.parent, path.parent):  # `parents=True` would give other modes
            folder.mkdir(mode=0o700, exist_ok=True)
        private_files.replace(path, text, owner=owner)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def _path(home: Home, placeholder: str) -> Path:
    return home.root / FOLDER / placeholder
