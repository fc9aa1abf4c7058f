"""The packages that a door or a client needs, which are installed with an extra of this one."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Mapping

from holdfast.errors import InvalidArgument

_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "client": ("websockets",),
    "mcp": ("mcp", "PIL"),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
}


def installed(extra: str) -> bool:
    """Return whether the packages of an extra are installed; loads none of them."""
    return all(importlib.util.find_spec(name) is not None for name in _EXTRAS[extra])


def check(extra: str, what: str) -> None:
    """Check that they are, for something that needs them.

    Raises:
        InvalidArgument: they are not.
    """
    if not installed(extra):
        raise InvalidArgument(f"cannot {what}: the packages for that are not installed", hint=command(extra))


def command(*extras: str) -> str:
    """Return the command that installs the packages of extras into the environment that runs this process.

    It names the packages, not this one with its extras: this one may have come from a checkout or a file. In
    an environment without pip, as uv makes them, uv installs.
    """
    from importlib import metadata

    parts = [text.partition(";") for text in metadata.requires("holdfast") or ()]
    wanted = {name.strip() for name, _, marker in parts if any(f'"{extra}"' in marker for extra in extras)}
    has_pip = importlib.util.find_spec("pip") is not None
    installer = [sys.executable, "-m", "pip"] if has_pip else ["uv", "pip"]
    where = [] if has_pip else ["--python", sys.executable]
    return shlex.join([*installer, "install", *where, *sorted(wanted)])
