"""Gives up capabilities, in a process that works on what a session wrote (capabilities(7))."""

from __future__ import annotations

import ctypes
import os
import struct

CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID = range(5)
NET_ADMIN = 12
SYS_ADMIN = 21
SETFCAP = 31
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_VERSION_3 = 0x20080522
_MOST = 64


def keep_only(*numbers: int) -> None:
    """Have no other capability than these from now on, nor any way to get one back.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_MOST):
        if number not in numbers:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails beyond the last one there is
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    bits = sum(1 << number for number in numbers)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    header = struct.pack("Ii", _VERSION_3, 0)
    data = struct.pack("6I", low, low, 0, high, high, 0)
    _checked(libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(data)), "capset")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
