"""Open files whose folders something else has replaced: CRIU cannot make the folders again.

CRIU puts a deleted file that is open back where it was, and makes folders that are missing for that moment.
It cannot where a file now has the name of such a folder, or a link whose target does not exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.record import ImageMessages, text


def open_files(images: ImageMessages) -> Iterator[str]:
    """Return the paths of regular files and folders that are open, deleted ones included.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    for entry in images.messages("files"):
        if entry.HasField("reg"):
            yield text(entry.reg.name)


def first(root: Path, paths: Iterable[str]) -> str | None:
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
    """Check that each folder on the way is one, or that there is nothing from some point on."""
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
