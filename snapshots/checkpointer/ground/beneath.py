"""Opens files of a session from outside, without being led anywhere else.

A path of a session is resolved below a folder that is already open, by openat2(2): no symbolic link, no magic
link of /proc and no `..` is followed, whatever the session puts there meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import struct

# linux/openat2.h; the number is the same on every architecture.
_SYS_OPENAT2 = 437
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH, _IN_ROOT = 0x01, 0x02, 0x04, 0x08, 0x10

ROOT = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""How to open a folder to resolve paths below it."""


def opened(folder: int, path: str, flags: int, mode: int = 0, *, same_mount: bool = False) -> int:
    """Open `path` below an open folder and return a descriptor; a leading slash means that folder.

    With `same_mount`, mounts below the folder are also out of reach.

    Raises:
        OSError: it cannot be opened: ELOOP for a link on the way, EXDEV for a path that leads out.
    """
    resolve = _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH | (_NO_XDEV if same_mount else 0)
    return _openat2(folder, path, flags, mode, resolve)


def seen_inside(root: int, path: str, flags: int) -> int:
    """Open `path` as a process does whose root folder is `root`, its links included; return a descriptor.

    Raises:
        OSError: it cannot be opened: ELOOP for a magic link of /proc on the way.
    """
    return _openat2(root, path, flags, 0, _NO_MAGICLINKS | _IN_ROOT)


def _openat2(folder: int, path: str, flags: int, mode: int, resolve: int) -> int:
    name = os.fsencode(path.lstrip("/") or ".")
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, mode, resolve)
    result = ctypes.CDLL(None, use_errno=True).syscall(
        _SYS_OPENAT2, folder, ctypes.c_char_p(name), ctypes.c_char_p(how), ctypes.c_size_t(len(how))
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(result)


def root_of(init_pid: int) -> int:
    """Open the root folder of a container, by its first process; the caller closes it.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(f"/proc/{init_pid}/root", ROOT)
