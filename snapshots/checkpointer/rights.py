"""Gives up capabilities of this process for good (capabilities(7)). Knows nothing of what follows."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NET_ADMIN = 12

_PR_CAPBSET_DROP = 24  # <linux/prctl.h>
_PR_SET_NO_NEW_PRIVS = 38
_VERSION_3 = 0x20080522  # <linux/capability.h>
_LAST = Path("/proc/sys/kernel/cap_last_cap")


def keep_only(*capabilities: int) -> None:
    """Keep these capabilities, by number, and lose all others; no program it executes gets them back.

    Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(int(_LAST.read_text()) + 1):
        if number not in capabilities:
            _checked(libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0))
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    bits = sum(1 << number for number in capabilities)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    # Effective, permitted, inheritable; of the lower 32 first.
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _checked(libc.capset(header, data))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot give up capabilities: {os.strerror(number)}")
