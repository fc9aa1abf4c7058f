"""A machine with more work than processors, as during a build, for programs that pages show."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PROCESSES_FOR_EACH_PROCESSOR = 2
NICENESS = "5"
"""So that other tests, which run at the same time, are not starved."""
SPIN = "while True: pass"


@contextmanager
def busy_machine() -> Iterator[None]:
    """Keep all processors busy during the block."""
    command = ["nice", "-n", NICENESS, sys.executable, "-S", "-c", SPIN]
    count = PROCESSES_FOR_EACH_PROCESSOR * (os.cpu_count() or 1)
    spinning = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
        assert [each.poll() for each in spinning] == [None] * count
    finally:
        for each in spinning:
            each.kill()
            each.wait()
