"""The places of snapshots on disk, as the checkpointer sees them.

The host's state directory is mounted at /state: `staging/ID` while a capture runs, `snapshots/ID` when it
is complete, `scratch/ID` while a restore reads it, which can be a moment longer than the host waits.
Everything is opened by descriptor from there and never through a link.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path

STATE = Path("/state")
INIT = STATE / "init"
"""Programs of first processes: one folder for each image they are of, named by their digests there."""
PROCESS_IMAGES = "images"
OLD_SCRATCH = 3600.0
"""Seconds in which a restore has begun to use its folder."""


def staging(name: str) -> Path:
    """Return the folder of a capture in progress."""
    return STATE / "staging" / name


def create_staging(name: str) -> Path:
    """Create the folder for process images in a new staging folder, readable by its owner only."""
    folder = staging(name)
    folder.mkdir(mode=0o700, exist_ok=True)
    images = folder / PROCESS_IMAGES
    images.mkdir(mode=0o700)
    return images


def create_scratch(name: str) -> Path:
    """Create a folder for a restore's versions of a snapshot's images, on the same file system."""
    folder = STATE / "scratch" / name
    folder.mkdir(mode=0o700, parents=True)
    return folder


def discard_scratch(name: str) -> None:
    """Remove the folder of a restore that is over."""
    shutil.rmtree(STATE / "scratch" / name, ignore_errors=True)


def use_scratch(folder: Path) -> int:
    """Open the folder of a restore; while the descriptor is open, the folder does not count as old."""
    descriptor = open_folder(folder)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def discard_old_scratch() -> None:
    """Remove the leftovers of restores whose checkpointer was killed.

    A restore that loads memory when it is touched can use it as long as its session lasts.
    """
    for folder in (STATE / "scratch").glob("*"):
        if folder.stat().st_mtime < time.time() - OLD_SCRATCH and not _in_use(folder):
            discard_scratch(folder.name)


def _in_use(folder: Path) -> bool:
    try:
        descriptor = open_folder(folder)
    except OSError:  # it is gone, or none of ours
        return False
    try:
        return not locked(descriptor)
    finally:
        os.close(descriptor)


def snapshot(name: str) -> Path:
    """Return the process images of a kept snapshot."""
    return STATE / "snapshots" / name / PROCESS_IMAGES


def staged(name: str) -> Path:
    """Return the process images of a capture in progress."""
    return staging(name) / PROCESS_IMAGES


def discard_staging(name: str, part: str = "") -> None:
    """Remove a staging folder or a part of it, whatever it contains."""
    shutil.rmtree(staging(name) / part, ignore_errors=True)


def open_folder(path: Path) -> int:
    """Open a folder and return a descriptor; the caller closes it."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def locked(descriptor: int) -> bool:
    """Lock an open file, unless another process has it (flock(2)); return whether it is locked now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def give_to_owner(folder: Path) -> None:
    """Make the state directory's owner the owner of written files, so that the host can read them."""
    owner = STATE.stat()
    if owner.st_uid == 0:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
