"""Whether the engine is in its usual place, answered quickly: every command line asks this first.

Reads at most one file, and imports nothing that takes long. `engine_place.py` reads the rest.
"""

from __future__ import annotations

import os

SOCKET = "/var/run/docker.sock"
CHOICE = "HOLDFAST_REMOTE"
"""`yes` or `no`: whether the engine is on another machine, if its address does not show it."""


def choice() -> bool | None:
    """Return whether the engine is on a different machine, if the choice was explicit."""
    return {"yes": True, "no": False}.get(os.environ.get(CHOICE, ""))


def is_used() -> bool:
    """Check whether a socket of this machine is the engine's; False if that takes further reading."""
    elsewhere = choice()
    return socket_path() is not None if elsewhere is None else not elsewhere


def socket_path() -> str | None:
    """Return the path of the engine's socket on this machine; None if that takes further reading."""
    if host := os.environ.get("DOCKER_HOST"):
        return host.removeprefix("unix://") if host.startswith("unix://") else None
    if os.environ.get("DOCKER_CONTEXT"):
        return None
    try:
        with open(f"{folder()}/config.json", "rb") as file:  # noqa: PTH123 - pathlib takes longer to import
            return None if b'"currentContext"' in file.read() else SOCKET
    except OSError:
        return SOCKET


def folder() -> str:
    """Return the folder of Docker's configuration."""
    if given := os.environ.get("DOCKER_CONFIG"):
        return given
    home = os.path.expanduser("~")  # noqa: PTH111 - as above; unchanged if there is neither HOME nor an account
    return f"{'/' if home == '~' else home}/.docker"
