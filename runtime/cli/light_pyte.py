"""Loads pyte without wcwidth's tables, which take longer to load than all else that `screen` needs.

Only for the process of a command line: for a moment, another module takes the place of wcwidth.
"""

from __future__ import annotations

import sys
from types import ModuleType


def load() -> None:
    """Load pyte, with a function that loads wcwidth when it meets the first character outside ASCII."""
    if "wcwidth" in sys.modules:
        return
    stand_in = ModuleType("wcwidth")
    vars(stand_in)["wcwidth"] = _width
    sys.modules["wcwidth"] = stand_in
    try:
        import pyte.screens  # noqa: F401
    finally:
        del sys.modules["wcwidth"]


def _width(char: str) -> int:
    """Return the columns that a character takes, as wcwidth does."""
    if " " <= char <= "~":
        return 1
    from wcwidth import wcwidth

    return wcwidth(char)
