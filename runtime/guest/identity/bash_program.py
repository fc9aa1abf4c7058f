"""Which bash runs: the image's, or the one that a portable guest brought along.

An image that was not made for sessions may have none, or one that cannot load the builtin that marks prompts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

OWN = "/opt/holdfast/bin/bash"
USUAL = "/bin/bash"
_OWN_TERMINALS = "/opt/holdfast/share/terminfo"
_TERMINALS = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo")
_TERMINAL = "x/xterm-256color"


def bash() -> str:
    """Return the path of the bash that shells, jobs and checks run."""
    return OWN if os.access(OWN, os.X_OK) else USUAL


def runnable(argv: Sequence[str]) -> list[str]:
    """Return the words of a program, with our bash in place of one that the image lacks."""
    if argv and argv[0] == USUAL and not os.access(USUAL, os.X_OK):
        return [bash(), *argv[1:]]
    return list(argv)


def describe_terminal(env: dict[str, str]) -> None:
    """Add where the terminal is described, for an image that has no such descriptions: terminfo(5)."""
    described = any(os.access(f"{each}/{_TERMINAL}", os.R_OK) for each in _TERMINALS)
    if not described and os.access(_OWN_TERMINALS, os.X_OK):
        env.setdefault("TERMINFO_DIRS", f":{_OWN_TERMINALS}")
