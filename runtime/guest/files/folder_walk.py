"""Lists what is in a folder, or in all folders below it, in small steps and without following links.

Only reads. Stays on the file system it begins on; folders that may not be read, or are gone, are passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.runtime.guest.files.inotify_queue import WatchLimit

MAX_FOLDERS = 50_000
"""Folders that wait to be listed."""
Enter = Callable[[str], bool]


class Signature(NamedTuple):
    """What tells one state of a file from another; times are in nanoseconds since 1970."""

    inode: int
    mode: int
    uid: int
    gid: int
    size: int
    modified: int
    changed: int

    @property
    def folder(self) -> bool:
        """Whether it is one of a folder."""
        return stat.S_ISDIR(self.mode)

    @classmethod
    def of(cls, found: os.stat_result) -> Signature:
        """Return it of a stat(2)."""
        times = found.st_mtime_ns, found.st_ctime_ns
        return cls(found.st_ino, found.st_mode, found.st_uid, found.st_gid, found.st_size, *times)


def steps(
    root: str, begin: str, *, recursive: bool, only: str | None = None, enter: Enter = lambda _: True
) -> Iterator[tuple[str, Signature]]:
    """Yield path and signature of everything below a folder, but not of that folder.

    Args:
        root: what paths are relative to.
        begin: the folder to begin with, from the root; '' is the root.
        recursive: whether to list folders in folders.
        only: the one name to look at.
        enter: called with each folder before it is listed; those for which it returns false are passed over.

    Raises:
        WatchLimit: more folders wait to be listed than are allowed.
    """
    left, device = [begin], None
    while left:
        folder = left.pop()
        place = f"{root}/{folder}" if folder else root
        try:
            here = os.lstat(place)
            device = device or here.st_dev
            if here.st_dev != device or not enter(folder):
                continue
            for name in [only] if only is not None else _names(place):
                path = f"{folder}/{name}" if folder else name
                try:
                    found = os.lstat(f"{root}/{path}")
                except OSError:
                    continue
                yield path, Signature.of(found)
                if recursive and stat.S_ISDIR(found.st_mode):
                    left.append(path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            if not folder:
                raise
        except OSError:
            continue  # a path too long for the kernel
        if len(left) > MAX_FOLDERS:
            raise WatchLimit(f"there are more than {MAX_FOLDERS} folders")


def _names(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name
