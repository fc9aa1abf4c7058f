"""Finds tasks that wait for a child of vfork(2) to start its program or to end.

Nothing can stop such a task for a tracer, and in a frozen container its child does not get there either. So a
caller that freezes one to trace it looks for them first. `posix_spawn(3)`, Python's `subprocess` and
compilers start programs that way, in less than a millisecond each.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
CLONE_VFORK = 0x4000
# Numbers of vfork, clone and clone3 (asm/unistd.h); 0: there is none. Those of 32 bits are not looked at.
_CALLS = {"x86_64": (58, 56, 435), "aarch64": (0, 220, 435)}


def waiting(pids: Iterable[int], calls: tuple[int, int, int] | None = None) -> Iterator[int]:
    """Return those of the given processes that have a thread waiting for such a child.

    `calls` are the numbers of the calls on this machine; on an unknown one, none is found.
    """
    numbers = calls or _CALLS.get(platform.machine())
    if numbers is None:
        return
    for pid in pids:
        if any(is_waiting(call, numbers) for call in _calls(pid)):
            yield pid


def is_waiting(call: str, calls: tuple[int, int, int]) -> bool:
    """Check by its /proc file `syscall` whether a task waits for a child of vfork. Pure."""
    number, _, rest = call.partition(" ")
    vfork, clone, clone3 = calls
    if not number.isdigit() or not int(number):
        return False
    if int(number) == clone:
        flags = rest.partition(" ")[0]
        with suppress(ValueError):
            return bool(int(flags, 16) & CLONE_VFORK)
        return False
    # The flags of clone3 are in memory; without that one it does not wait for anything.
    return int(number) in (vfork, clone3)


def _calls(pid: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(PROC / str(pid) / "task") as threads:
        for thread in threads:
            with suppress(OSError):
                yield Path(thread.path, "syscall").read_text(encoding="ascii", errors="replace")
