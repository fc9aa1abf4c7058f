"""Freed memory of this process, which the C library is to give back to the system.

glibc has an arena for each of up to eight threads for each processor, and begins to take large blocks from
arenas once one of that size was freed, up to 32 MiB: mallopt(3). A server moves the contents of files in
blocks of some MiB, through whichever thread is idle. Each arena would then keep the most that it ever held.
"""

from __future__ import annotations

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From <malloc.h>."""
LARGE = 1 << 18
"""Bytes of a block that is mapped on its own, and unmapped when it is freed. A fixed limit does not grow."""
KEPT = 1 << 20
"""Bytes at the end of an arena that are kept for later allocations."""
ARENAS = 2
"""Threads of Python allocate one at a time."""


def return_what_is_freed() -> None:
    """Let a process that lives long keep little memory that it no longer uses; call it before threads start.

    Other C libraries than glibc decide that themselves.
    """
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return
    for option, value in ((_M_ARENA_MAX, ARENAS), (_M_MMAP_THRESHOLD, LARGE), (_M_TRIM_THRESHOLD, KEPT)):
        set_option(option, value)
