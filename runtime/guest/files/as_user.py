"""The rights of one user, taken on for a moment by the thread that opens files.

Owns which ids the kernel checks; knows nothing of the files. The kernel checks a thread's file system ids
and its supplementary groups (credentials(7)); the C library would change the groups of all threads, so the
call is made directly.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.pulse.access import reading_as

_SETGROUPS = {"x86_64": 116, "aarch64": 159}.get(os.uname().machine)
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def as_user(account: UserAccount) -> Iterator[None]:
    """Open, make and remove files as that user, in this thread, until the end of the block.

    The block must not await anything: whatever else the loop does would also run as that user.
    """
    if not account.foreign:
        yield
        return
    own = os.getgroups()
    _set_groups(account.groups())
    try:
        with reading_as(account.uid, account.gid):
            yield
    finally:
        _set_groups(own)


def _set_groups(groups: Sequence[int]) -> None:
    """Set the supplementary groups of this thread; without the right to, they stay as they are."""
    if _SETGROUPS is not None:
        array = (ctypes.c_uint32 * len(groups))(*groups)
        _libc.syscall(_SETGROUPS, ctypes.c_long(len(groups)), array)
