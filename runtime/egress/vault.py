"""The values of secrets, on the host: one file for each placeholder, for the owner of the home alone.

Sessions and snapshots name placeholders. A value stays as long as one of them does; what is said of hosts there
is not believed, but what is kept here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.runtime.egress.secret import Given
from holdfast.runtime.gateway import exchange
from holdfast.runtime.gateway.policy import Secret, SecretHost
from holdfast.runtime.home import Home

FOLDER = "gateway/secrets"
USER = 4_018_128
"""Who the gateway runs as if the home is root's: nobody else has this number, nor usual systems as a subordinate
id."""
_FRESH = 3600.0
"""Seconds in which a value is not garbage: its session may be about to be made."""


def keep(home: Home, given: Iterable[Given]) -> list[dict[str, object]]:
    """Keep these, and return what a session's options say of them. Raises StoreError."""
    return [_kept(home, one) for one in given]


def find(home: Home, placeholder: str) -> Secret | None:
    """The secret of a placeholder; None if this home has it not. Raises StoreError."""
    if not exchange.is_placeholder(placeholder):
        return None
    path = _path(home, placeholder)
    try:
        told = json.loads(path.read_text())
        return Secret(told["name"], placeholder, tuple(map(SecretHost.parse, told["hosts"])), told["value"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"cannot use {path}: it is damaged", hint="remove it, and make the session anew"
        ) from error


def unneeded(home: Home, needed: set[str]) -> Iterator[Path]:
    """Files of values that none of these placeholders stands for."""
    for path in sorted((home.root / FOLDER).glob("*")):
        with suppress(OSError):
            if path.name not in needed and time.time() - path.stat().st_mtime > _FRESH:
                yield path


def _kept(home: Home, given: Given) -> dict[str, object]:
    placeholder = exchange.new_placeholder()
    path = _path(home, placeholder)
    hosts = [str(host) for host in given.hosts]
    write_private(path, json.dumps({"name": given.name, "hosts": hosts, "value": given.value}))
    return {"name": given.name, "hosts": hosts, "placeholder": placeholder}


def user() -> int:
    """Who the gateway runs as, and reads what only its owner may."""
    return os.geteuid() or USER


def owner() -> int | None:
    """To whom the gateway's files are given; None if they are its own already."""
    return USER if os.geteuid() == 0 else None


def write_private(path: Path, text: str, owner: int | None = None) -> None:
    """Write a file that only its owner reads, as a whole. Raises StoreError."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            if owner is not None:
                os.fchown(file.fileno(), owner, -1)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def _path(home: Home, placeholder: str) -> Path:
    return home.root / FOLDER / placeholder
