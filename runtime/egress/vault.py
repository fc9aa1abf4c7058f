"""The values of secrets, on the host: one file for each placeholder, readable by the home's owner alone.

Sessions and snapshots name placeholders. A value stays as long as one of them does. The hosts that receive it
are those kept here, whatever a session or snapshot says.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, SnapshotDamaged, SnapshotNewer, StoreError
from holdfast.runtime.gateway import exchange
from holdfast.runtime.gateway.exchange import new_placeholder
from holdfast.runtime.gateway.session_rules import Secret, SecretHost
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


FOLDER = "gateway/secrets"
USER = 4_018_128
"""User of the gateway if the home is root's: a number no user has, nor any range of subordinate ids."""
FORM = "NAME@HOST[,HOST...]=SOURCE, where SOURCE is env:VARIABLE, @FILE, or @- for standard input"
MOST = 50
"""Limits of secrets per session, and of hosts per secret."""
LEAST, LONGEST = 8, 8192
"""Minimal length of a value: a shorter one would be found in responses by chance."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FRESH = 3600.0
"""Seconds in which a value is not garbage: its session may be about to be made."""


def keep(home: Home, given: Iterable[Given]) -> None:
    """Keep these secrets.

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
    """Return all values by name; when several share a name, each is followed by its placeholder.

    Raises:
        StoreError: one cannot be read.
    """
    every = [secret for placeholder, _ in kept(home) if (secret := find(home, placeholder)) is not None]
    names = [one.name for one in every]
    return {
        one.name if names.count(one.name) == 1 else f"{one.name} {one.placeholder}": one.value
        for one in every
    }


def forget_value(home: Home, placeholder: str) -> None:
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
    """Return the user of the gateway, who reads files that are private to their owner."""
    return os.geteuid() or USER


def owner() -> int | None:
    """Return the user who gets the gateway's files; None if they already belong to it."""
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


@dataclass(frozen=True, slots=True)
class Given:
    """A secret with its value, and the placeholder that stands for it."""

    name: str
    hosts: tuple[SecretHost, ...]
    value: str = field(repr=False)
    placeholder: str = field(default_factory=new_placeholder)

    def option(self) -> dict[str, object]:
        """Return its entry in the options of a session."""
        return {"name": self.name, "hosts": list(map(str, self.hosts)), "placeholder": self.placeholder}


def parse(text: str, environ: Mapping[str, str] = os.environ) -> Given:
    """Return the secret of an option; reads the source it names. Messages never contain a value.

    Raises:
        InvalidArgument: it is malformed, or its source does not exist.
    """
    head, equals, source = text.partition("=")
    name, at, hosts = head.partition("@")
    if not _NAME.fullmatch(name):
        raise _refused("a secret", "its name is not a valid variable name")
    if not equals or not at or not hosts:
        raise _refused(name, "it does not name the hosts that receive it")
    return Given(name, parse_hosts(name, hosts), _checked(name, _read(name, source, environ)))


def parse_hosts(name: str, text: str) -> tuple[SecretHost, ...]:
    """Return the hosts of a secret, separated by commas.

    Raises:
        InvalidArgument: one is not valid, or there are too many.
    """
    parts = text.split(",")
    if len(parts) > MOST:
        raise _refused(name, f"it has more than {MOST} hosts")
    found = []
    for part in parts:
        try:
            found.append(SecretHost.parse(part))
        except ValueError as error:
            raise _refused(name, f"'{plain(part, 100)}' is not a host: {error}") from error
    return tuple(dict.fromkeys(found))


def _read(name: str, source: str, environ: Mapping[str, str]) -> str:
    if source.startswith("env:"):
        variable = source.removeprefix("env:")
        if variable not in environ:
            raise _refused(name, f"variable {plain(variable, 100)} is not set here")
        return environ[variable]
    if not source.startswith("@"):
        return source
    try:
        if source == "@-":
            data = sys.stdin.buffer.read(LONGEST + 2)
        else:
            with Path(source[1:]).expanduser().open("rb") as file:
                data = file.read(LONGEST + 2)
        return data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise _refused(name, f"cannot read {plain(source[1:], 200)}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _refused(name, "its value is not text") from error


def _checked(name: str, value: str) -> str:
    if not LEAST <= len(value) <= LONGEST:
        raise _refused(name, f"its value has {len(value)} characters, and must have {LEAST} to {LONGEST}")
    if not value.isprintable():
        raise _refused(name, "its value has characters that no header can have, such as a line break")
    return value


def _refused(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"cannot keep secret {name}: {why}", hint=f"it is {FORM}")


def unneeded(context: Context) -> list[str]:
    """Return the placeholders of values that are no longer needed."""
    before = time.time() - _FRESH
    old = [placeholder for placeholder, since in kept(context.home) if since < before]
    return _without_needed(context, old)


def forget_values(context: Context, options: Mapping[str, Any]) -> None:
    """Remove the values of a removed session, except those that a different session or a snapshot has."""
    for placeholder in _without_needed(context, placeholders(options)):
        forget_value(context.home, placeholder)


def placeholders(options: Mapping[str, Any]) -> list[str]:
    """Return the placeholders in a session's options."""
    return [str(one["placeholder"]) for one in options.get("secrets") or ()]


def _without_needed(context: Context, candidates: Iterable[str]) -> list[str]:
    left = list(candidates)
    if left:  # most homes have no secrets; snapshots are not read then
        try:
            needed = set(_needed(context))
        except SnapshotNewer:  # what it needs is not known here, so nothing is removed
            return []
        left = [placeholder for placeholder in left if placeholder not in needed]
    return left


def _needed(context: Context) -> Iterator[str]:
    for session in context.store.sessions():
        yield from placeholders(session.options)
    for snapshot in context.store.snapshots(pending=True):
        try:
            yield from placeholders(manifest.read(context.home.snapshots / snapshot.id).options)
        except SnapshotDamaged:  # or not written yet: it has the same placeholders as its session
            owner = context.store.find_session(snapshot.session_id, removed=True)
            yield from placeholders(owner.options) if owner else ()
