"""Whether there is memory for one more copy. Pure, but for one look at the machine."""

from __future__ import annotations

import re
from pathlib import Path

OVERHEAD = 64 << 20
"""Of a container and its supervisor's own growth, beside the memory that was captured. Bytes."""
SPARE = 0.1
"""Of the machine's memory stays free, whatever is asked for."""


def fits(available: int, total: int, copy: int, coming: int) -> bool:
    """Whether a copy of so many bytes can be begun.

    Args:
        available: bytes the kernel could give without swapping.
        total: bytes of the machine.
        copy: bytes of memory a snapshot holds.
        coming: copies that were begun and may not have taken their memory yet.
    """
    return available - (coming + 1) * (copy + OVERHEAD) >= SPARE * total


def look() -> tuple[int, int]:
    """Available and total bytes of this machine; endless where it does not tell."""
    found = dict(re.findall(r"(\w+): +(\d+) kB", Path("/proc/meminfo").read_text()))
    total = int(found.get("MemTotal", 0)) << 10
    return int(found.get("MemAvailable", 1 << 40)) << 10, total
