"""Open files as the pulse tells of them. Pure: links and texts of `/proc/PID/fd`, `fdinfo` in, rows out."""

from __future__ import annotations

import os
import stat
from typing import Any

DELETED = " (deleted)"
_ACCESS = {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}
_FLAGS = {
    os.O_APPEND: "append",
    os.O_NONBLOCK: "nonblock",
    os.O_DIRECT: "direct",
    os.O_SYNC: "sync",
    os.O_PATH: "path",
}
_MODES = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISSOCK, "socket"),
)


def kind_of_link(target: str) -> str:
    """Return what a descriptor is by where its link points; `path` if only stat(2) can tell."""
    if target.startswith("/"):
        if target.startswith("/dev/") and not target.startswith("/dev/shm/"):  # noqa: S108
            return "terminal" if target.startswith(("/dev/pts/", "/dev/tty", "/dev/ptmx")) else "device"
        return "memory" if target.startswith("/memfd:") else "path"
    name, _, _ = target.partition(":")
    return name if name in ("socket", "pipe") else "other"


def kind_of_mode(mode: int) -> str:
    """Return what a file is by its mode."""
    return next((name for test, name in _MODES if test(mode)), "other")


def socket_inode(target: str) -> int | None:
    """Return the number of the socket a link points to."""
    number = target[8:-1] if target.startswith("socket:[") else ""
    return int(number) if number.isdigit() else None


def parse_fdinfo(data: bytes) -> dict[str, Any]:
    """Return offset, access, flags and locks from an `fdinfo`, see proc_pid_fdinfo(5)."""
    offset, access, flags, locks = 0, "r", [], []
    for line in data.splitlines():
        name, _, rest = line.partition(b":")
        if name == b"pos":
            offset = int(rest)
        elif name == b"flags":
            number = int(rest, 8)
            access = _ACCESS.get(number & os.O_ACCMODE, "?")
            # O_SYNC holds the bit of O_DSYNC too: all bits must be there.
            flags = [word for bits, word in _FLAGS.items() if bits and number & bits == bits]
        elif name == b"lock" and (lock := parse_lock(rest)):
            locks.append(lock)
    return {"offset": offset, "access": access, "flags": flags, "locks": locks}


def parse_lock(line: bytes) -> dict[str, Any] | None:
    """Return a lock from a line of /proc/locks, see proc_locks(5); None if it is not a held one.

    `end` is the last byte, or None for all that follows.
    """
    words = line.decode("ascii", "replace").split()
    if len(words) != 8 or "->" in words:  # an arrow marks one that is waited for
        return None
    _, kind, enforced, mode, pid, _, start, end = words
    return {
        "kind": {"OFDLCK": "ofd"}.get(kind, kind.lower()),
        "mode": mode.lower(),
        "mandatory": enforced == "MANDATORY",
        "pid": _number(pid),
        "start": _number(start) or 0,
        "end": _number(end),
    }


def row(
    pid: int, fd: int, target: str, status: os.stat_result | None, info: dict[str, Any]
) -> dict[str, Any]:
    """Return what is told of an open file."""
    kind = kind_of_link(target)
    deleted = target.endswith(DELETED)
    if kind == "path":
        kind = kind_of_mode(status.st_mode) if status else "file"
        deleted = deleted and (status is None or status.st_nlink == 0)
    return {
        "pid": pid,
        "fd": fd,
        "path": target.removesuffix(DELETED) if deleted else target,
        "kind": kind,
        "size": status.st_size if status else None,
        "deleted": deleted,
        **info,
    }


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 20 else None
