"""The background packer as a process that is killed at one of its calls that read or change the disk.

    python tests/packing_steps.py HOME STEP

Killed by SIGKILL before or after the STEP-th of them; if it ends before, it prints how many there were.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.base.home import Home
from holdfast.runtime.storage import background_packer

CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("fsync", "readv", "close", "posix_fallocate")),
    *((Path, name) for name in ("rename", "replace", "unlink", "open")),
)


class Countdown:
    """Kills this process after a number of steps: each call is one before and one after it."""

    def __init__(self, steps: int) -> None:
        self.done = 0
        self._steps = steps

    def step(self) -> None:
        """Count one step."""
        self.done += 1
        if self.done == self._steps:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts a step before and after each call."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.step()
            result = function(*args, **kwargs)
            self.step()
            return result

        return call


def main() -> None:
    """Pack what the home has to pack, up to the step."""
    countdown = Countdown(int(sys.argv[2]))
    for owner, name in CALLS:
        setattr(owner, name, countdown.around(getattr(owner, name)))
    background_packer.run(Home(Path(sys.argv[1])))
    sys.stdout.write(f"{countdown.done}\n")


if __name__ == "__main__":
    main()
