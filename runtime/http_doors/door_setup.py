"""The things a door or a client needs before it opens: packages of an extra, and the token of the home.

A token is given, or made once and kept where the owner of the home alone can read it.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.base import private_files
from holdfast.base.extras import install_command
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument

_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "client": ("websockets",),
    "cluster": ("psycopg",),
    "mcp": ("mcp", "PIL"),
    "oidc": ("authlib", "joserfc"),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
}


def installed(extra: str) -> bool:
    """Return whether the packages of an extra are installed; loads none of them."""
    return all(importlib.util.find_spec(name) is not None for name in _EXTRAS[extra])


def check_packages(extra: str, what: str) -> None:
    """Check that the packages of an extra are installed.

    Raises:
        InvalidArgument: they are not.
    """
    if not installed(extra):
        raise InvalidArgument(
            f"cannot {what}: the packages for that are not installed", hint=install_command(extra)
        )


_SHORTEST = 16


@dataclass(frozen=True, slots=True)
class DoorToken:
    """Where the token of one door comes from: an environment variable, else a file in the home."""

    variable: str
    file_name: str


SERVER = DoorToken("HOLDFAST_TOKEN", "server-token")
"""Of the server for programs; its clients on this machine look there as well."""


def token_of(home: Home, door: DoorToken, *, new: bool = False) -> tuple[str, Path | None]:
    """Return the token, and the file it is kept in unless the environment has it.

    Args:
        home: where it is kept.
        door: whose token it is.
        new: make another one; that of before opens nothing any more.

    Raises:
        InvalidArgument: the given one is too short to be a secret, or a new one is asked for as well.
        OSError: the home cannot be written.
    """
    if (given := os.environ.get(door.variable)) is not None:
        if new:
            raise InvalidArgument(
                f"cannot make a new token: {door.variable} sets it",
                hint=f"unset {door.variable}, or leave out --new-token",
            )
        if len(given) < _SHORTEST or not given.isascii() or not given.isprintable() or " " in given:
            raise InvalidArgument(
                f"cannot use the token in {door.variable}: it needs {_SHORTEST} or more characters of ASCII",
                hint="`openssl rand -hex 16` makes one; without the variable one is made and kept",
            )
        return given, None
    file = home.root / door.file_name
    with suppress(FileNotFoundError):
        kept = "" if new else file.read_text("ascii", "replace").strip()
        if len(kept) >= _SHORTEST:
            return kept, file
    made = secrets.token_hex(24)
    private_files.replace(file, made + "\n", durable=False)
    return made, file
