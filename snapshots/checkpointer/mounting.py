"""mount(2) and umount2(2), by the C library. Knows nothing of what is mounted, or why."""

from __future__ import annotations

import os

# sys/mount.h
_NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 2, 4, 8, 32, 4096
_DETACH, _NOFOLLOW = 2, 8
PLAIN = _NOSUID | _NODEV | _NOEXEC
"""Flags of a mount that gives no privileges: no setuid programs, no devices, no programs."""


def mount(source: bytes, target: bytes, kind: bytes, flags: int, options: bytes) -> None:
    """Mount a file system. Raises OSError."""
    _call("mount", source, target, kind, flags, options)


def make_writable(target: bytes) -> None:
    """Have a mount that was read-only be writable, and plain. Raises OSError."""
    _call("mount", b"none", target, b"none", _REMOUNT | _BIND | PLAIN, None)


def detach(target: bytes) -> None:
    """Unmount what is mounted there, even while it is in use.

    Raises:
        OSError: it cannot be unmounted.
    """
    _call("umount2", target, _DETACH | _NOFOLLOW)


def _call(name: str, *arguments: bytes | int | None) -> None:
    import ctypes  # the host also imports this module where it mounts nothing

    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
