"""Opens files of a session from outside, without being led elsewhere.

A path of a session is resolved below a folder that is already open, by openat2(2): no symbolic link, no
magic link of /proc and no `..` is followed, whatever the session puts there. `digest` goes from folder to
folder, since the host uses it as well.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import struct
from pathlib import Path

# linux/openat2.h; the number is the same on every architecture.
_SYS_OPENAT2 = 437
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH, _IN_ROOT = 0x01, 0x02, 0x04, 0x08, 0x10

ROOT = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""How to open a folder to resolve paths below it."""
DIGEST_SIZE = 16
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def opened(folder: int, path: str, flags: int, mode: int = 0, *, same_mount: bool = False) -> int:
    """Open `path` below an open folder and return a descriptor; a leading slash means that folder.

    With `same_mount`, mounts below the folder are also out of reach.

    Raises:
        OSError: it cannot be opened: ELOOP for a link on the way, EXDEV for a path that leads out.
    """
    resolve = _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH | (_NO_XDEV if same_mount else 0)
    return _openat2(folder, path, flags, mode, resolve)


def seen_inside(root: int, path: str, flags: int) -> int:
    """Open `path` as a process with the root folder `root` does, its links included; return a descriptor.

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


class FileTooLarge(OSError):
    """The file exceeds the limit for reading."""

    def __init__(self, size: int) -> None:
        super().__init__("it is too large")
        self.size = size


def digest(folder: Path, path: str, limit: int) -> tuple[int, str]:
    """Size and digest of the regular file at an absolute path below `folder`.

    Raises:
        TooLarge: it has more than `limit` bytes.
        OSError: there is none.
    """
    *folders, name = [part for part in path.split("/") if part] or ["."]
    at = os.open(folder, ROOT)
    try:
        for part in folders:
            if part == "..":
                raise FileNotFoundError
            below = os.open(part, ROOT | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        # A device or a FIFO must not be opened: what is there is looked at first.
        if not stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            raise FileNotFoundError
        descriptor = os.open(name, _FILE, dir_fd=at)
    finally:
        os.close(at)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > limit or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileTooLarge(size)
        return size, hashlib.blake2b(file.read(limit), digest_size=DIGEST_SIZE).hexdigest()
