"""The check for enough memory for one more copy. Pure, except for reading the machine's memory."""

from __future__ import annotations

import re
from pathlib import Path

OVERHEAD = 64 << 20
"""Memory of a container and its supervisor's own growth, beside the captured memory. Bytes."""
SPARE = 0.1
"""Share of the machine's memory that stays free, whatever is requested."""


def fits(available: int, total: int, copy: int, coming: int) -> bool:
    """Return whether a copy of this many bytes can be started.

    Args:
        available: bytes the kernel could give without swapping.
        total: bytes of the machine.
        copy: bytes of memory a snapshot holds.
        coming: copies that were started and may not have taken their memory yet.
    """
    return available - (coming + 1) * (copy + OVERHEAD) >= SPARE * total


def look() -> tuple[int, int]:
    """Return available and total bytes of this machine; unlimited where it does not say."""
    found = dict(re.findall(r"(\w+): +(\d+) kB", Path("/proc/meminfo").read_text()))
    total = int(found.get("MemTotal", 0)) << 10
    return int(found.get("MemAvailable", 1 << 40)) << 10, total
