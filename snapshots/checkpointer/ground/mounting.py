"""mount(2), umount2(2), move_mount(2) and open_tree(2), by the C library.

Does not know the mounts or their purpose.
"""

from __future__ import annotations

import ctypes
import os

# sys/mount.h
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _NOATIME, _NODIRATIME, _BIND = 1, 2, 4, 8, 32, 1024, 2048, 4096
_DETACH, _NOFOLLOW = 2, 8
# linux/mount.h, asm-generic/unistd.h: the numbers are the same on every architecture.
_SYS_MOVE_MOUNT, _FROM_EMPTY_PATH, _TO_EMPTY_PATH = 429, 0x04, 0x40
_SYS_OPEN_TREE, _CLONE, _EMPTY_PATH = 428, 1, 0x1000
PLAIN = _NOSUID | _NODEV | _NOEXEC
"""Flags of a mount without privileges: no setuid programs, no devices, no programs."""


def mount(source: bytes, target: bytes, kind: bytes, flags: int, options: bytes) -> None:
    """Mount a file system. Raises OSError."""
    _call("mount", source, target, kind, flags, options)


def make_writable(target: bytes) -> None:
    """Make a read-only mount writable, and plain. Raises OSError."""
    _call("mount", b"none", target, b"none", _REMOUNT | _BIND | PLAIN, None)


def make_read_only(target: bytes) -> None:
    """Make a mount read-only, otherwise unchanged; other mounts of the same files stay as they are.

    Raises:
        OSError: the kernel refuses: EBUSY while a file in it is open for writing.
    """
    kept = os.statvfs(target).f_flag & (_NOSUID | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME)
    _call("mount", b"none", target, b"none", _REMOUNT | _BIND | _RDONLY | kept, None)


def move(mount: int, place: int) -> None:
    """Move a mount, detached or not, with the mounts in it; both by open descriptors.

    Raises:
        OSError: the kernel refuses.
    """
    _call("syscall", _SYS_MOVE_MOUNT, mount, b"", place, b"", _FROM_EMPTY_PATH | _TO_EMPTY_PATH)


def detach(target: bytes) -> None:
    """Unmount the mount there, even while it is in use.

    Raises:
        OSError: it cannot be unmounted.
    """
    _call("umount2", target, _DETACH | _NOFOLLOW)


def _call(name: str, *arguments: bytes | int | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def detached_clone(folder: int) -> int:
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
