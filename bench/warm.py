"""Uses the machine's free memory once, so that no measurement pays for the first use of it.

A virtual machine gets memory from its host when it touches it for the first time; that can take seconds for a
gigabyte, and would count against the first measurement.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path

PAGE = mmap.PAGESIZE
CHUNK = 256 << 20
SHARE = 0.7
"""The share of available memory to use; the rest is left to others."""


def available(meminfo: str) -> int:
    """Return the bytes available without swapping (proc_meminfo(5))."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def touch(tell: Callable[[str], None]) -> None:
    """Write to every page of most of the available memory, then free it."""
    size = int(SHARE * available(Path("/proc/meminfo").read_text()))
    tell(f"using {size / (1 << 30):.1f} GiB of memory once")
    held: list[mmap.mmap] = []
    try:
        for _ in range(size // CHUNK):
            held.append(mmap.mmap(-1, CHUNK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            held[-1][::PAGE] = b"\1" * (CHUNK // PAGE)
    finally:
        for chunk in held:
            chunk.close()
