"""A few megabytes kept in the home, given up so that something can be removed when the disk is full.

SQLite needs room for the journal of a transaction, also for one that deletes (https://sqlite.org/tempfiles.html).
The file is made when the home is opened and there is plenty of room, and let go by what frees room itself:
`rm`, `rmi`, `gc` and the undoing of what was cut short.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "ballast"
SIZE = 4 << 20
"""Bytes. A removal changes rows in a few pages of 4 KiB; the journal of its transaction holds them once."""
PLENTY = 16 * SIZE
"""Bytes that have to be free before the file is made."""
ENOUGH = SIZE // 4
"""Bytes that have to be free for the database to be written."""


def keep(root: Path) -> None:
    """Make the file, if it is missing and there is plenty of room. Costs one system call if it is there."""
    if not os.access(root / NAME, os.F_OK) and _free(root) >= PLENTY:
        _make(root, SIZE)


@contextmanager
def given_up(root: Path) -> Iterator[bool]:
    """Do without the file in the block if the disk is full; yields whether the database can be written.

    After the block as much of it is made again as there is room for: it serves the next removal, too.
    """
    path, released = root / NAME, False
    if _free(root) < ENOUGH:
        with suppress(OSError):
            path.unlink()
            released = True
    try:
        yield _free(root) >= ENOUGH
    finally:
        room = min(SIZE, _free(root))
        if released and room >= ENOUGH:
            _make(root, room)


def _make(root: Path, size: int) -> None:
    path = root / NAME
    with suppress(OSError):  # another process made it just now, or the disk is full after all
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def _free(root: Path) -> int:
    """Bytes on the home's file system that this user may take; plenty if the kernel does not say."""
    try:
        found = os.statvfs(root)
    except OSError:
        return PLENTY
    return found.f_bavail * found.f_frsize
