"""The features that a home needs of its file system, tried once when the home is created.

Network and foreign file systems lack some of it (NFS without its lock daemon, vfat), and would fail much
later, in the middle of something else. Knows nothing of what a home holds.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.procfs import mount_table

HINT = "set HOLDFAST_HOME to a folder on a local disk (ext4, xfs, btrfs); bundles can be kept anywhere"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def require(root: Path) -> None:
    """Try everything in a folder below `root` that is removed at the end.

    Raises:
        StoreError: it lacks something; the message names all that it lacks.
        OSError: no folder can be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=".trial-", dir=root))
    try:
        missing = [name for name, trial in _TRIALS.items() if not _works(trial, folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if missing:
        raise StoreError(
            f"cannot use state directory {root}: its file system{_kind(root)} lacks {_listed(missing)}",
            hint=HINT,
        )


def _works(trial: Callable[[Path], bool], folder: Path) -> bool:
    try:
        return trial(folder)
    except OSError as error:
        return error.errno in _FULL  # nothing is known then; what needs room later says so


def _permissions(folder: Path) -> bool:
    (folder / "own").touch(mode=0o600)
    return not (folder.stat().st_mode | (folder / "own").stat().st_mode) & 0o077


def _locks(folder: Path) -> bool:
    with (folder / "locked").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _links(folder: Path) -> bool:
    (folder / "first").touch()
    (folder / "second").hardlink_to(folder / "first")
    return True


def _sockets(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_PATH)  # paths of sockets are short (unix(7))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{descriptor}/socket")
    finally:
        os.close(descriptor)
    return True


def _mapping(folder: Path) -> bool:
    with (folder / "mapped").open("w+b") as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        with mmap.mmap(file.fileno(), mmap.PAGESIZE) as table:
            table[0] = 1
    return True


_TRIALS: dict[str, Callable[[Path], bool]] = {
    "permissions": _permissions,
    "locks": _locks,
    "hard links": _links,
    "UNIX sockets": _sockets,
    "shared mappings": _mapping,
}
"""Permissions keep others out; locks are between processes; links give a file of a snapshot a second name;
the checkpointer listens on a socket; the index of pages is mapped."""


def _kind(root: Path) -> str:
    """Return the file system's kind for a message, in parentheses; empty if it is not known."""
    device = root.stat().st_dev
    found = ""
    for part in mount_table.parse(Path("/proc/self/mountinfo").read_bytes()):
        if (part.major, part.minor) == (os.major(device), os.minor(device)):
            found = f" ({part.kind})"
    return found


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if names[1:] else names[0]
