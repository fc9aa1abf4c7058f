"""The wording of errors, output and table cells in both suites. Pure."""

from __future__ import annotations

from holdfast.base.text import colored, plain
from holdfast.errors import HoldfastError


def reason(error: HoldfastError, limit: int = 600) -> str:
    """Return the message of an error with its hint, in one line."""
    return plain(f"{error} ({error.hint})" if error.hint else str(error), limit)


def ending(text: str) -> str:
    """Return the last lines of some output, in one line."""
    lines = [line for line in colored(text, keep=False).splitlines() if line.strip()]
    return plain(" / ".join(lines[-4:]), 400) if lines else "it said nothing"


def cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    safe = plain(text, 300).replace("\\", "\\\\").replace("|", "\\|")
    return safe.replace("<", "&lt;").replace("`", "'") if "<" in safe else safe
