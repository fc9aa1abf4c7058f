"""Gives removed folders that processes stand in, or have open, another name if something has theirs by now.

CRIU makes such a folder by its name, enters it and removes it (open_remap_ghost() of criu/files-reg.c). After
`rm -r build; mkdir build` it would enter the new folder, and remove that or fail.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.criu.source import ImageFolder
from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.record import REMOVED_FOLDER, escaping_links, text

_MOST = 1000
"""Names that are tried."""


def rename(root: Path, images: Path) -> None:
    """Edit the open files in a scratch folder for a container that runs nothing yet, and has all its files.

    Raises:
        Unreadable: the images cannot be read.
        OSError: they cannot be written, or no name is free below `root`.
    """
    source = ImageFolder(images)
    removed = escaping_links.removed(source)
    if not removed:
        return
    path = images / "files.img"
    magic, entries = criu_images.read(path)
    folder = os.open(root, beneath.ROOT)
    try:
        given: dict[str, int] = {}
        is_changed = False
        for entry in entries:
            number = removed.get(entry.id) if entry.HasField("reg") else None
            if number is None or not _is_folder(source, number):
                continue
            name = text(entry.reg.name)
            free = _free(folder, name, number, given)
            given[free] = number
            if free != name:
                entry.reg.name = os.fsencode(free)
                is_changed = True
    finally:
        os.close(folder)
    if is_changed:
        path.unlink()  # it may be a link to what is kept
        criu_images.write(path, magic, entries)


def _is_folder(source: ImageFolder, number: int) -> bool:
    return any(stat.S_ISDIR(int(ghost.mode)) for ghost in source.messages(f"ghost-file-{number:x}")[:1])


def _free(root: int, name: str, number: int, given: dict[str, int]) -> str:
    """Return `name` if it is free, or a free name beside it; entries of one folder share it."""
    parent = name.rpartition("/")[0]
    for tried in (name, *(f"{parent}/{REMOVED_FOLDER}{number + more}" for more in range(_MOST))):
        if given.get(tried, number) == number and not _exists(root, tried):
            return tried
    raise FileExistsError(f"no name is free beside {name[:300]!r}, a removed folder")


def _exists(root: int, path: str) -> bool:
    try:
        os.close(beneath.seen_inside(root, path, os.O_PATH | os.O_NOFOLLOW))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
