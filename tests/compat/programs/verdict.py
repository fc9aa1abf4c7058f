"""Reads the output of a check inside a session. Pure.

The last line that begins with `ok:` or `not ok:` counts: a shell can print other lines around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.base.text import colored, plain

_LINE = re.compile(r"^(not ok|ok): ?(.*)$")
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """A program's verdict: whether it continues, and its own text."""

    ok: bool
    said: str


def read(output: str) -> Verdict:
    """Return the verdict in the output of a check; no verdict is a bad one."""
    shown = colored(output[-100_000:], keep=False).replace("\r", "\n")
    for line in reversed(shown.splitlines()):
        found = _LINE.match(line.strip())
        if found:
            return Verdict(found[1] == "ok", plain(found[2], LONGEST))
    last = next((line for line in reversed(shown.splitlines()) if line.strip()), "nothing")
    return Verdict(False, f"its check gave no verdict, but said: {plain(last, LONGEST)}")
