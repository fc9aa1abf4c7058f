"""Whether all files that the processes of a capture have open, mapped or stand in are in its copy.

Asked before a session is ended: what cannot be opened cannot be restored, and is only there as long as the
session runs. A file is in the copy if it was copied with the layer or is the image's own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.layers import apart
from holdfast.snapshots.checkpointer.record import text

_ELSEWHERE = (errno.ENOENT, errno.ENOTDIR, errno.EXDEV)
"""Gone, or on another mount: CRIU or the archive of shared memory has it."""


class NotCopied(OSError):
    """A file of a process is not in the copy."""

    def __init__(self, path: str) -> None:
        super().__init__(f"a process has {apart.shown(path)} open or stands in it, and the copy lacks it")


def check(
    root: Path, upper: Path | None, entries: Iterable[Any], remaps: Iterable[Any], has: Callable[[str], bool]
) -> None:
    """Check it for the entries of the images `files` and `remap-fpath`.

    Args:
        root: the session's root folder.
        upper: the folder of its layer; None if the engine copies it, which leaves reserved names out.
        entries: the open files.
        remaps: those that CRIU keeps itself.
        has: tells whether a path, relative to the root, was copied.

    Raises:
        NotCopied: one is not there.
        OSError: a folder cannot be read.
    """
    kept = {remap.orig_id for remap in remaps}
    named = ((entry.id, text(entry.reg.name).strip("/")) for entry in entries if entry.HasField("reg"))
    paths = {path for number, path in named if path and number not in kept}
    if upper is None:
        if lost := sorted(filter(apart.is_unnameable, paths)):
            raise NotCopied(lost[0])
        return
    session, layer = os.open(root, beneath.ROOT), os.open(upper, beneath.ROOT)
    try:
        for path in sorted(paths):
            if not has(path) and _is_in(session, path) and _is_in(layer, path):
                raise NotCopied(path)
    finally:
        os.close(session)
        os.close(layer)


def _is_in(folder: int, path: str) -> bool:
    try:
        os.close(beneath.opened(folder, path, os.O_PATH | os.O_NOFOLLOW, same_mount=True))
    except OSError as error:
        if error.errno not in _ELSEWHERE:
            raise
        return False
    return True
