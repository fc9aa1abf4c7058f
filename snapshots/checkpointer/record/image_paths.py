"""Names of files in images, resolved in the session's root: links that lead out, folders that were replaced.

A kernel gives the names of open files without links in them. Of an image that was forged together with its
files that is not certain, and CRIU would follow what it finds: `astray` finds links into /proc, whose entries
lead anywhere. Nothing runs in the container yet, so CRIU will see the same.

The name of a removed file is not followed: linkat(2) puts the file there, or next to a new file in its
place (open_path() of criu/files-reg.c). A removed folder gets a name that is free (`prepared_images.py`).
Only the folders they lie in matter. CRIU makes folders that are missing for the moment in which it puts a
deleted file back. It cannot where a file now has the name of such a folder, or a link whose target does not
exist: `first_lost` finds these.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.record import ImageMessages, text

MAX_LINKS = 40
"""As many as a kernel follows (path_resolution(7))."""
_GHOST = 1
"""The type of a remap whose file does not have a name any more; see CRIU's remap-file-path.proto."""


def names(images: ImageMessages) -> Iterator[str]:
    """Return paths that CRIU will open, bind, make or watch.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    without_name = removed(images)
    for entry in images.messages("files"):
        if entry.HasField("reg"):
            name = text(entry.reg.name)
            yield name.rpartition("/")[0] if entry.id in without_name else name
        elif entry.HasField("usk"):
            yield from _of_socket(entry.usk)
        elif entry.HasField("ify"):
            yield from (text(watch.f_handle.path) for watch in entry.ify.wd)


def removed(images: ImageMessages) -> dict[int, int]:
    """Return the numbers of images of open files without a remaining name, by the ids of the files."""
    remaps = images.messages("remap-fpath")
    return {remap.orig_id: remap.remap_id for remap in remaps if remap.remap_type == _GHOST}


def _of_socket(socket: Any) -> Iterator[str]:
    """Resolve a relative name: CRIU goes to the folder it was bound in, whatever the name."""
    name = os.fsdecode(bytes(socket.name).split(b"\0")[0])
    folder = text(socket.name_dir) if socket.HasField("name_dir") else ""
    if folder:
        yield folder
    if name.startswith("/") or (folder and name):
        yield name if name.startswith("/") else f"{folder}/{name}"


def astray(root: Path, paths: Iterable[str]) -> str | None:
    """Return the first path that a link takes into /proc, or round in circles; None if there is none.

    `root` is a container's; its contents can be anything, but do not change during this.
    """
    folders: set[tuple[str, ...]] = set()
    for path in paths:
        if not _stays(str(root), path, folders):
            return path
    return None


def _stays(root: str, path: str, folders: set[tuple[str, ...]]) -> bool:
    left = [part for part in path.split("/") if part not in ("", ".")][::-1]
    here: tuple[str, ...] = ()
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            here = here[:-1]
            continue
        here = (*here, part)
        if links and here[0] == "proc":
            return False
        if here in folders or here[0] == "proc":
            continue
        target = _link(f"{root}/{'/'.join(here)}", here, folders)
        if target is None:
            continue
        links += 1
        if links > MAX_LINKS:
            return False
        here = () if target.startswith("/") else here[:-1]
        left += [each for each in target.split("/") if each not in ("", ".")][::-1]
    return True


def _link(path: str, here: tuple[str, ...], folders: set[tuple[str, ...]]) -> str | None:
    """Return the target of a link; None if it is not one, or does not exist."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return str(Path(path).readlink())
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        folders.add(here)
    return None


def open_files(images: ImageMessages) -> Iterator[str]:
    """Return the paths of regular files and folders that are open, deleted ones included.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    for entry in images.messages("files"):
        if entry.HasField("reg"):
            yield text(entry.reg.name)


def first_lost(root: Path, paths: Iterable[str]) -> str | None:
    """Return the first path whose folders cannot be made below `root`; None if there is none.

    Raises:
        OSError: `root` cannot be opened.
    """
    folder = os.open(root, beneath.ROOT)
    try:
        possible: dict[str, bool] = {}
        for path in paths:
            parent = path.rpartition("/")[0]
            if parent not in possible:
                possible[parent] = _can_be_made(folder, parent)
            if not possible[parent]:
                return path
    finally:
        os.close(folder)
    return None


def _can_be_made(root: int, parent: str) -> bool:
    """Check that each component on the way is a folder, or that the rest is missing."""
    here = ""
    for part in parent.strip("/").split("/"):
        here = f"{here}/{part}"
        if not _opens(root, here, beneath.ROOT):
            return not _opens(root, here, os.O_PATH | os.O_NOFOLLOW)
    return True


def _opens(root: int, path: str, flags: int) -> bool:
    try:
        os.close(beneath.seen_inside(root, path, flags))
    except OSError:
        return False
    return True
