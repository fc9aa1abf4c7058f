"""A few megabytes reserved in the home, released so that things can be removed when the disk is full.

SQLite needs room for the journal of a transaction, even of one that deletes (https://sqlite.org/tempfiles.html).
The file is made when the home is opened and there is plenty of room. It is released by operations that free
room themselves: `rm`, `rmi`, `gc` and the undoing of operations that were cut short.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

NAME = "ballast"
SIZE = 4 << 20
"""Size in bytes. A removal changes rows in a few pages of 4 KiB; its journal holds each of them once."""
PLENTY = 16 * SIZE
"""Free bytes required before the file is made."""
ENOUGH = SIZE // 4
"""Free bytes required to write the database."""


def keep(root: Path | str) -> None:
    """Make the file if it is missing and there is plenty of room. Costs one system call if it exists."""
    if not os.access(f"{root}/{NAME}", os.F_OK) and _free(root) >= PLENTY:
        _make(root, SIZE)


@contextmanager
def given_up(root: Path) -> Iterator[bool]:
    """Release the file for the block if the disk is full; yield True if the database can be written.

    After the block the file is made again, as large as there is room for, so that it serves the next removal.
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


def _make(root: Path | str, size: int) -> None:
    path = f"{root}/{NAME}"
    with suppress(OSError):  # another process made it just now, or the disk is full after all
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - pathlib takes longer to load
        finally:
            os.close(descriptor)


def _free(root: Path | str) -> int:
    """Return the bytes this user may still take of the home's file system; plenty if that is unknown."""
    try:
        found = os.statvfs(root)
    except OSError:
        return PLENTY
    return found.f_bavail * found.f_frsize
