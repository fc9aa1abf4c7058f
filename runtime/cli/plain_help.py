"""The help of the whole command line, without the verbs it lists."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence


def matched(given: Sequence[str]) -> Callable[[], int] | None:
    """Return what prints the help, if it is asked for and the terminal is as wide as lines of help get."""
    if list(given) != ["--help"]:
        return None
    from holdfast.runtime.cli import help_text

    return _print if _columns() >= help_text.COLUMNS else None


def _print() -> int:
    from holdfast.runtime.cli import help_text

    sys.stdout.write(help_text.TEXT)
    return 0


def _columns() -> int:
    """Return the width of the terminal, by the rules of `shutil.get_terminal_size`."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        return int(chosen)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
