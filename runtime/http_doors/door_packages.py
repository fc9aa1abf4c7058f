"""The packages that a door or a client needs, which are installed with an extra of this one."""

from __future__ import annotations

import importlib.util
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
        raise InvalidArgument(
            f"cannot {what}: the packages for that are not installed", hint=f"pip install 'holdfast[{extra}]'"
        )
