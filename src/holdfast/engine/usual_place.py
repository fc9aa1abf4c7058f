"""Whether the engine is where it usually is, answered in the least time: every command line asks this first.

Reads at most one file, and imports nothing that takes long. `engine_place.py` reads the rest.
"""

from __future__ import annotations

import os

CHOICE = "HOLDFAST_REMOTE"
"""`yes` or `no`: whether the engine is on another machine, if its address does not show it."""


def choice() -> bool | None:
    """Return whether the engine is on another machine, if that was chosen."""
    return {"yes": True, "no": False}.get(os.environ.get(CHOICE, ""))


def is_used() -> bool:
    """Check whether a socket of this machine is the engine's; False if more has to be read to know it."""
    if (elsewhere := choice()) is not None:
        return not elsewhere
    if host := os.environ.get("DOCKER_HOST"):
        return host.startswith("unix://")
    if os.environ.get("DOCKER_CONTEXT"):
        return False
    try:
        with open(f"{folder()}/config.json", "rb") as file:  # noqa: PTH123 - pathlib takes longer to import
            return b'"currentContext"' not in file.read()
    except OSError:
        return True


def folder() -> str:
    """Return the folder of Docker's configuration."""
    if given := os.environ.get("DOCKER_CONFIG"):
        return given
    home = os.path.expanduser("~")  # noqa: PTH111 - as above; unchanged if there is neither HOME nor an account
    return f"{'/' if home == '~' else home}/.docker"
