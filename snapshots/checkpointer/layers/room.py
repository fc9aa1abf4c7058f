"""Refuses a copy that is larger than what is free, before its large files are copied.

Counts what a file takes on the disk, not its length; but what an engine makes of a layer has no holes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.snapshots.checkpointer.layers import apart
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry

LARGE = 16 << 20
"""Bytes that a file takes for which room is looked for beforehand."""
IN_ENGINE = 2
"""How often an engine has a layer on its disk while it loads it: as it arrives, and unpacked."""


class CopyTooLarge(OSError):
    """There is not enough space for the copy."""


def check(copy: Path, engine: Path, large: Sequence[tuple[FileEntry, int]]) -> None:
    """Check that there is room for files of which each is given with the bytes that it takes on the disk.

    Args:
        copy: a folder on the disk on which the copy is made.
        engine: one on the disk on which the engine makes an image of it.
        large: the files.

    Raises:
        CopyTooLarge: there is not; the error names the largest file.
    """
    if not large:
        return
    here = sum(held for _, held in large)
    there = IN_ENGINE * sum(_unpacked(item, held) for item, held in large)
    if copy.stat().st_dev == engine.stat().st_dev:
        here, there = here + there, 0
    for needed, place in ((here, copy), (there, engine)):
        space = os.statvfs(place)
        if needed > (free := space.f_bavail * space.f_frsize):
            largest, held = max(large, key=lambda one: _unpacked(*one) + one[1])
            raise CopyTooLarge(
                f"{apart.shown(largest.path)} holds {held >> 20} of {largest.size >> 20} MiB; with other "
                f"large files and the image {needed >> 20} MiB are needed, and {free >> 20} MiB are free"
            )


def _unpacked(item: FileEntry, held: int) -> int:
    """Return the bytes that a file takes in an image: all of its length, unless it is kept beside that."""
    empty = max(item.size - held, 0)
    is_apart = empty >= apart.LEAST_HOLES and held <= max(empty, apart.MOST_CONTENT)
    return 0 if is_apart else item.size
