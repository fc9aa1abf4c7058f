"""The status line of an attached terminal: its shell, a wait for input, the holder, the people here.  Pure.

The session's own words in it are text, cut to the width of the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyte.screens import wcwidth

from holdfast.base.text import plain
from holdfast.runtime.attachment.command_keys import COMMAND_KEY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo

LEAST_ROWS = 5
"""The least height of a terminal with a status line."""
SEPARATOR = " | "
_KEYS = f"{COMMAND_KEY} ?"
_WIDEST = 200


def people(lease: Lease) -> list[str]:
    """Return the holder of a shell, and the people and agents attached to it."""
    here = [f"{one.actor} ({'types' if one.writes else 'watches'})" for one in lease.attached]
    return [f"held by {lease.holder or 'no one'}", ", ".join(here)]


def waiting(shell: ShellInfo | None) -> str:
    """Return the question for which a shell's program waits; empty if it does not."""
    observed = None if shell is None else shell.observed
    return f"waits: {observed.prompt or observed.detail}" if observed is not None and observed.waits else ""


def status(name: str, shell: str, shells: Sequence[ShellInfo], lease: Lease) -> str:
    """Return the text of the line, the most important part first."""
    own = next((one for one in shells if one.name == shell), None)
    parts = [f"{name}:{shell}", waiting(own), *people(lease)]
    others = [f"{one.name}{' (waits)' if waiting(one) else ''}" for one in shells if one.name != shell]
    if others:
        parts.append(f"shells: {', '.join(others)}")
    return SEPARATOR.join(plain(part, _WIDEST) for part in parts if part)


def filled(text: str, cols: int) -> str:
    """Return a text that fills a row of this width: cut, or followed by spaces and the key of the keys."""
    kept, width = [" "], 1
    for char in text:
        wide = wcwidth(char)
        if wide < 1:
            continue
        if width + wide > cols:
            break
        kept.append(char)
        width += wide
    left = cols - width
    end = f"{_KEYS} ".rjust(left) if left > len(_KEYS) + 2 else " " * left
    return "".join(kept)[:cols] + end
