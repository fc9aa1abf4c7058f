"""Readers of other processes' files in `/proc`, with no more rights than the supervisor has.

Owns the way files of `/proc` are opened; does not know the meaning of the facts.

The supervisor is root in its container but lacks CAP_SYS_PTRACE. The kernel lets one process inspect
another if its file system IDs match the other's, see ptrace(2), PTRACE_MODE_FSCREDS; to read a process of
another user, this thread briefly takes on that user's IDs. A process that was started from a setuid program
stays closed even then (it is not dumpable): only its world-readable files can be read.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.procfs import bounded, process_stat
from holdfast.procfs.process_stat import Stat

SMALL = 4096
LARGE = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def reading_as(uid: int, gid: int) -> Iterator[None]:
    """Open files as that user, in this thread, until the end of the block.

    The block must not await anything: whatever else the loop does would also run as that user.
    """
    own = os.geteuid()
    if own != 0 or uid == 0:
        yield
        return
    group = os.getegid()
    # Set the group first: afterwards there is no right to change it. Neither call reports whether it worked.
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    try:
        yield
    finally:
        _libc.setfsuid(own)
        _libc.setfsgid(group)


def owner(pid: int) -> tuple[int, int] | None:
    """Return the user and group with the right to inspect a process, root's if it is closed; None if it is
    gone."""
    try:
        found = os.stat(f"/proc/{pid}")  # noqa: PTH116  (here and below: each look costs, a Path twice as much)
    except OSError:
        return None
    return found.st_uid, found.st_gid


def read(path: str, size: int = SMALL) -> bytes | None:
    """Return the beginning of a file, or None if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, size)
    except OSError:
        return None
    finally:
        os.close(fd)


def whole(path: str) -> bytes | None:
    """Return a file that the kernel delivers a page at a time, up to LARGE bytes, or None as `read` does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return b"".join(bounded.pieces(fd, LARGE))
    except OSError:
        return None
    finally:
        os.close(fd)


def read_at(path: str, offset: int, size: int) -> bytes | None:
    """Return bytes from the middle of a file, such as `/proc/PID/mem`, or None."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.pread(fd, size, offset)
    except (OSError, OverflowError):
        return None
    finally:
        os.close(fd)


def link(path: str) -> str | None:
    """Return the target of a link of `/proc`, or None if it cannot be seen."""
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None


def links(pid: int) -> dict[int, str]:
    """Return the targets of a process's descriptors, by number; empty if they cannot be seen."""
    folder = f"/proc/{pid}/fd"
    found = {}
    for number in numbers(folder):
        if (target := link(f"{folder}/{number}")) is not None:
            found[number] = target
    return found


def numbers(folder: str) -> list[int]:
    """Return the entries of a folder that are numbers: processes, threads, descriptors."""
    try:
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]  # noqa: PTH208
    except OSError:
        return []


def stat(pid: int) -> Stat | None:
    """Return the stat of a process, or None if it is gone."""
    data = read(f"/proc/{pid}/stat")
    return None if data is None else process_stat.parse(data)


def command(pid: int, limit: int = 200) -> str:
    """Return a process's command line in readable form: one line without control characters, or empty."""
    data = read(f"/proc/{pid}/cmdline") or b""
    words = data[: limit * 4].rstrip(b"\0").decode("utf-8", "replace").replace("\0", " ")
    text = "".join(c if c.isprintable() else " " for c in words)
    return text if len(text) <= limit else text[: limit - 1] + "…"
