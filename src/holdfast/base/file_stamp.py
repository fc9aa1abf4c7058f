"""Whether a file has changed since it was read. It takes a look at its name, some microseconds."""

from __future__ import annotations

import os
import time

SETTLED_NS = 50_000_000
"""Nanoseconds after which the time of a file shows each further change: some ticks of a kernel's clock."""
WHOLE_SETTLED_NS = 3_000_000_000
"""The same for a time of whole seconds: some file systems keep no parts of them, or two at a time."""
_SECOND_NS = 1_000_000_000


def settled(path: str) -> object:
    """Return a value that differs after each change of a file.

    None if it does not exist, or was changed so recently that a further change could have the same time.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - without an object for the path
    except OSError:
        return None
    changed = found.st_mtime_ns
    wait = SETTLED_NS if changed % _SECOND_NS else WHOLE_SETTLED_NS
    if time.time_ns() - changed < wait:
        return None
    return changed, found.st_size, found.st_ino
