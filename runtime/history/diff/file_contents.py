"""Comparison of a file in two images, read from their layers on this host, and its size.

Requires root, and layers of the overlay file system; otherwise nothing is known. Layers were written by
sessions: no link in them is followed, only regular files are read, and reading is bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from holdfast.runtime.history.drift.changed_paths import FileChange

MOST_FILES = 5000
MOST_BYTES = 512 << 20
"""The most bytes read of all files together; the rest counts as different."""
_OPAQUE = "trusted.overlay.opaque"
_CHUNK = 1 << 20


class Contents:
    """The files of one image; `layers` are its folders, the topmost first."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._layers = layers

    @contextmanager
    def opened(self, path: str) -> Iterator[int | None]:
        """Open the regular file at a path and return a descriptor; None if there is none, or it cannot be
        read.
        """
        fd: int | None = None
        for layer in self._layers:
            fd, hidden = _open_in(layer, path.strip("/").split("/"))
            if fd is not None or hidden:
                break
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)


def settle(found: Iterable[FileChange], before: Contents, after: Contents) -> list[FileChange]:
    """Leave out files that were rewritten unchanged, and fill in missing sizes."""
    kept: list[FileChange] = []
    files, left = 0, MOST_BYTES
    for change in found:
        if change.change == "deleted" or change.folder or (change.change == "new" and change.size):
            kept.append(change)
            continue
        files += 1
        if files > MOST_FILES:
            kept.append(change)
            continue
        with before.opened(change.path) as old, after.opened(change.path) as new:
            size = os.fstat(new).st_size if new is not None else change.size
            if old is not None and new is not None and _alike(old, new) and size <= left:
                left -= size
                if _same(old, new):
                    continue
            kept.append(replace(change, size=size))
    return kept


def _open_in(layer: Path, names: Sequence[str]) -> tuple[int | None, bool]:
    """Open the path in one layer. The second value is True if lower layers do not show through."""
    folder = -1
    with suppress(OSError):
        folder = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if folder < 0:
        return None, True
    hidden = False
    try:
        for at, name in enumerate(names):
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                return None, hidden
            if at == len(names) - 1 and stat.S_ISREG(found.st_mode):
                return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), True
            if at == len(names) - 1 or not stat.S_ISDIR(found.st_mode):
                return None, True
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
            hidden = hidden or _OPAQUE in os.listxattr(folder)
        return None, hidden
    except OSError:
        return None, True
    finally:
        os.close(folder)


def _alike(old: int, new: int) -> bool:
    one, other = os.fstat(old), os.fstat(new)
    return (one.st_size, one.st_mode, one.st_uid, one.st_gid) == (
        other.st_size,
        other.st_mode,
        other.st_uid,
        other.st_gid,
    )


def _same(old: int, new: int) -> bool:
    while True:
        one, other = os.read(old, _CHUNK), os.read(new, _CHUNK)
        if one != other:
            return False
        if not one:
            return True
