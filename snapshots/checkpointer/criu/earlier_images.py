"""Pages of a snapshot that are in the images of earlier captures of its processes.

CRIU's map of pages says of a page that it is in the *parent*: in images of the same process in a folder
within that of the images, which can have a parent again. Here each snapshot has all its needs itself: hard
links to these images of earlier snapshots, side by side with its own. All that keeps, packs or sends a
snapshot knows only files:

    pagemap-12.img, pages-3.img             as CRIU writes them
    earlier-1-pagemap-12.img, -pages-1.img  of the capture before
    earlier-2-...                           of the one before that
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.record.earlier_names import MOST, named, parted

_PARENT = "parent"
"""The folder's name of CRIU (CR_PARENT_LINK in include/image.h)."""


def may_build_on(images: Path) -> bool:
    """Return whether the next capture can refer to these images of the last one."""
    return images.is_dir() and not any(images.glob(named(MOST, "*")))


def link(images: Path, before: Path, processes: Iterable[int]) -> None:
    """Add the memory of these processes, by their inner pids, as in the images of the previous capture.

    Raises:
        OSError: it is not all there.
        ImagesUnreadable: no capture writes such images.
    """
    for pid in processes:
        for captures in range(MOST):
            table = f"pagemap-{pid}.img"
            found = criu_images.read(before / named(captures, table))[1]
            if not found and captures:
                break
            for name in (table, *(f"pages-{head.pages_id}.img" for head in found[:1])):
                os.link(before / named(captures, name), images / named(captures + 1, name))


def lay_out(name: str, images: Path) -> Path:
    """Return CRIU's path for an image of this name in a folder, after making folders for it."""
    captures, own = parted(name)
    folder = images.joinpath(*[_PARENT] * captures)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / own


def forget(images: Path) -> None:
    """Remove the images of earlier captures from a folder in which all memory is in its own images now."""
    shutil.rmtree(images / _PARENT, ignore_errors=True)
