"""The least that it takes to keep bytes: writing and syncing as many to the same disk.

It knows nothing of who keeps them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path


def seconds_to_write(path: Path, size: int) -> float:
    """Return the seconds to write `size` random bytes and sync them; the file is gone afterwards."""
    block = os.urandom(1 << 20)
    begun = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(size // len(block)):
            file.write(block)
        os.fsync(file.fileno())
    seconds = time.perf_counter() - begun
    path.unlink()
    return seconds
