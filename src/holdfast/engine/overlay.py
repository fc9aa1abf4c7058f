"""The differences of a container's files from its image, read from the layer that the engine writes them to.

The engine can report the same, but compares every file of the image: a second where this takes milliseconds.
It needs root on this host; without it, or for layers of other drivers, there is no answer. The layer is under
the session's control: no link in it is followed, and names may vanish while it is read.

The engine reads every folder through the session's own mount, which programs that watch it (inotify(7))
notice: so it is asked only where there is no other way.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

CHANGED, NEW, DELETED = 0, 1, 2
"""The engine's numbers."""
_OPAQUE = "trusted.overlay.opaque"
_REDIRECT = "trusted.overlay.redirect"


def changes(upper: Path, lowers: Sequence[Path]) -> list[tuple[str, int]] | None:
    """Return the changed paths and their kinds of change, as the engine would; None if they cannot be read.

    Args:
        upper: the container's own layer.
        lowers: the image's layers, the topmost first.
    """
    try:
        return list(_walk(upper, [os.fspath(lower) for lower in lowers]))
    except (OSError, _Unknown):
        return None


class _Unknown(Exception):
    """A feature of the file system that is not supported here."""


def _walk(upper: Path, lowers: list[str]) -> Iterator[tuple[str, int]]:
    below: dict[str, list[str]] = {"": lowers}
    for root, folders, files, fd in os.fwalk(upper, onerror=_fail, follow_symlinks=False):
        here = os.path.relpath(root, upper)
        prefix = "" if here == "." else f"/{here}"
        mine = below.pop(prefix, [])
        # The layer has a copy of every changed folder; the image's entries show through, unless hidden.
        if prefix and _marked(fd):
            names = {*folders, *files}
            yield from ((f"{prefix}/{name}", DELETED) for name in _names(mine, prefix) if name not in names)
        for name in (*folders, *files):
            path = f"{prefix}/{name}"
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
                yield path, DELETED
                continue
            if stat.S_ISDIR(found.st_mode):
                below[path] = _folders(mine, path)
            yield path, CHANGED if _there(mine, path) else NEW


def _marked(fd: int) -> bool:
    """Check whether a folder hides the layers below it."""
    names = os.listxattr(fd)
    if _REDIRECT in names:
        raise _Unknown
    return _OPAQUE in names and os.getxattr(fd, _OPAQUE) == b"y"


def _there(lowers: list[str], path: str) -> bool:
    for lower in lowers:
        found = _stat(lower + path)
        if found is not None:
            return not _whiteout(found)
    return False


def _folders(lowers: list[str], path: str) -> list[str]:
    """Return the layers in which the path is a folder visible through the layers above."""
    shown = []
    for lower in lowers:
        found = _stat(lower + path)
        if found is None:
            continue
        if not stat.S_ISDIR(found.st_mode):
            break
        shown.append(lower)
        if _OPAQUE in os.listxattr(lower + path, follow_symlinks=False):
            break
    return shown


def _names(lowers: list[str], path: str) -> list[str]:
    hidden: set[str] = set()
    names: list[str] = []
    for lower in lowers:
        with os.scandir(lower + path) as entries:
            for entry in entries:
                if entry.name in hidden:
                    continue
                hidden.add(entry.name)
                if not _whiteout(entry.stat(follow_symlinks=False)):
                    names.append(entry.name)
    return names


def _whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _fail(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
