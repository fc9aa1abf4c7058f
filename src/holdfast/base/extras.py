"""The command that installs missing packages, for hints. Knows no door that needs them."""

from __future__ import annotations

import importlib.util
import shlex
import sys


def install_command(*extras: str) -> str:
    """Return the command that installs the packages of extras into the environment that runs this process.

    It names the packages, not this one with its extras: this one can have come from a checkout or a file.
    In an environment without pip, as uv makes them, uv installs.
    """
    from importlib import metadata

    parts = [text.partition(";") for text in metadata.requires("holdfast") or ()]
    wanted = {name.strip() for name, _, marker in parts if any(f'"{extra}"' in marker for extra in extras)}
    has_pip = importlib.util.find_spec("pip") is not None
    installer = [sys.executable, "-m", "pip"] if has_pip else ["uv", "pip"]
    where = [] if has_pip else ["--python", sys.executable]
    return shlex.join([*installer, "install", *where, *sorted(wanted)])
