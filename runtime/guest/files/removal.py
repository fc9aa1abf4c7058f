"""Removal of a folder with its contents, in small steps, without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def discard(folder: Path) -> None:
    """Remove a folder of the supervisor's own, if it exists, in one go. Undeletable parts stay."""
    if os.path.lexists(folder):
        import shutil  # 2 ms that a session need not wait for when it begins

        shutil.rmtree(folder, ignore_errors=True)


def steps(path: str, *, recursive: bool, missing_ok: bool) -> Iterator[None]:
    """Remove a file or link, or a folder: one name for each step.

    Raises:
        OSError: something cannot be removed; a folder that is not empty, unless `recursive`.
    """
    left = [path]
    while left:
        here = left[-1]
        try:
            if not stat.S_ISDIR(os.lstat(here).st_mode):
                os.unlink(here)  # noqa: PTH108
            elif recursive and (names := os.listdir(here)):  # noqa: PTH208
                left += [f"{here}/{name}" for name in names]
                continue
            else:
                os.rmdir(here)  # noqa: PTH106
        except FileNotFoundError:
            if here == path and not missing_ok:
                raise
        left.pop()
        yield
