"""Folders that have nothing above them.

A process that gets a descriptor of an ordinary folder can climb out of it: `..` of its root leads to whatever
is above, in the mount namespace it came from. A detached copy of the mount (open_tree(2)) has no parent: `..`
of its root is the root.
"""

from __future__ import annotations

import ctypes
import os

# linux/mount.h, asm-generic/unistd.h: the number is the same on every architecture.
_SYS_OPEN_TREE = 428
_CLONE, _EMPTY_PATH = 1, 0x1000


def clone(folder: int) -> int:
    """Return the folder as the root of a mount of its own; the caller closes it.

    Raises:
        OSError: it cannot be mounted.
    """
    result = ctypes.CDLL(None, use_errno=True).syscall(
        _SYS_OPEN_TREE, folder, ctypes.c_char_p(b""), _CLONE | _EMPTY_PATH | os.O_CLOEXEC
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"open_tree: {os.strerror(number)}")
    return int(result)
