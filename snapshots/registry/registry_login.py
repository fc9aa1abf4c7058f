"""Credentials for a registry: from the environment, or from where `docker login` keeps them.

Asks credential helpers (`docker-credential-…`) by their protocol; does not decide how credentials are used.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import RegistryError
from holdfast.snapshots.registry.reference import HUB, HUB_API

USER, PASSWORD, ONLY_FOR = "HOLDFAST_REGISTRY_USER", "HOLDFAST_REGISTRY_PASSWORD", "HOLDFAST_REGISTRY"
HUB_KEY = "https://index.docker.io/v1/"
HELPER_SECONDS = 60.0
MAX_CONFIG = 1 << 20

_HELPER = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_TOKEN_USER = "<token>"  # noqa: S105 - how helpers say that the secret is an identity token


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """A user with a password, or an identity token that stands for both. Never shown."""

    user: str
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of the Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


Helper = Callable[[str, str], str | None]
"""A function that asks the named helper for a registry; JSON, or None without credentials."""


def find(
    host: str, environ: Mapping[str, str] = os.environ, helper: Helper | None = None
) -> RegistryCredentials | None:
    """Return the credentials for a registry; None if there are none.

    Args:
        host: as written in references.
        environ: HOLDFAST_REGISTRY_USER and _PASSWORD come first (if HOLDFAST_REGISTRY is set, for that host
            only), then Docker's config.json: DOCKER_CONFIG, else ~/.docker.
        helper: asks credential helpers; by default, runs them.

    Raises:
        RegistryError: the file or a helper cannot be understood.
    """
    if environ.get(USER) and environ.get(ONLY_FOR, host) == host:
        return RegistryCredentials(environ[USER], environ.get(PASSWORD, ""))
    folder = environ.get("DOCKER_CONFIG") or str(Path(environ.get("HOME") or "~").expanduser() / ".docker")
    path = Path(folder) / "config.json"
    config = _read(path)
    keys = [HUB_KEY, HUB, HUB_API] if host == HUB else [host]
    helpers = _table(config, "credHelpers")
    for key in keys:
        name = helpers.get(key) or config.get("credsStore")
        if isinstance(name, str) and (found := _of_helper((helper or _run)(name, key))):
            return found
    for key, entry in _table(config, "auths").items():
        if isinstance(entry, dict) and (key in keys or _host_of(key) in keys):
            found = _of_entry(path, entry)
            if found:
                return found
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(MAX_CONFIG))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return value if isinstance(value, dict) else {}


def _table(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _unreadable(path: Path, error: Exception) -> RegistryError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not in Docker's format"
    return RegistryError(
        f"cannot read the credentials in {path}: {why}",
        hint=f"correct it, or set {USER} and {PASSWORD}",
    )


def _host_of(key: str) -> str:
    """Return the host of an entry; some are written as addresses: `https://host/v1/`."""
    return key.partition("://")[2].partition("/")[0] if "://" in key else key.partition("/")[0]


def _of_entry(path: Path, entry: Mapping[str, Any]) -> RegistryCredentials | None:
    token = entry.get("identitytoken")
    user, password = entry.get("username"), entry.get("password")
    if packed := entry.get("auth"):
        try:
            user, colon, password = base64.b64decode(str(packed), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        if not colon:
            raise _unreadable(path, ValueError("auth"))
    if token:
        return RegistryCredentials(str(user or ""), identity_token=str(token))
    return RegistryCredentials(str(user), str(password or "").rstrip("\0")) if user else None


def _of_helper(answer: str | None) -> RegistryCredentials | None:
    if answer is None:
        return None
    try:
        value = json.loads(answer)
        user, secret = str(value["Username"]), str(value["Secret"])
    except (ValueError, KeyError, TypeError) as error:
        raise RegistryError(
            "cannot read the credential helper's output", hint="`docker login` again"
        ) from error
    if not secret:
        return None
    return (
        RegistryCredentials("", identity_token=secret)
        if user == _TOKEN_USER
        else RegistryCredentials(user, secret)
    )


def _run(name: str, server: str) -> str | None:
    """Run a helper (https://github.com/docker/docker-credential-helpers); it fails if it has no answer."""
    if not _HELPER.fullmatch(name):
        return None
    program = f"docker-credential-{name}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=server,
            text=True,
            capture_output=True,
            timeout=HELPER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "it does not answer" if isinstance(error, subprocess.TimeoutExpired) else "it cannot be run"
        raise RegistryError(
            f"cannot ask {program} for credentials: {why}",
            hint=f"install it, or set {USER} and {PASSWORD}",
        ) from error
    return done.stdout if done.returncode == 0 else None
