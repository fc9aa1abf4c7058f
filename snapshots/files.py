"""Digests of a snapshot's files: made once after the thaw, checked before every restore.

BLAKE3 is read through a memory map with one thread per core: a gigabyte in the page cache takes about as
long as starting a container, and is checked meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from blake3 import blake3

from holdfast.base import private_files
from holdfast.errors import SnapshotDamaged
from holdfast.snapshots.manifest import Manifest, StoredFile

# Written by the tools for human readers; nothing reads them back.
_NOT_KEPT = {"dump.log", "stats-dump"}


def describe(folder: Path) -> list[StoredFile]:
    """Describe every file below a folder, by name. Files that only explain a dump are removed first."""
    found: list[StoredFile] = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if path.name in _NOT_KEPT:
            path.unlink()
            continue
        found.append(
            StoredFile(name=str(path.relative_to(folder)), bytes=path.stat().st_size, blake3=digest(path))
        )
    return found


def make_durable(folder: Path, besides: Collection[str] = ()) -> None:
    """Wait until everything below a folder is on the disk: files first, then the folders.

    `besides` are files that are safe elsewhere, by their names below the folder.

    Raises:
        OSError: something cannot be synced.
    """
    below = (path for path in folder.rglob("*") if str(path.relative_to(folder)) not in besides)
    sync((*below, folder))


def sync(paths: Iterable[Path]) -> None:
    """Make files readable by their owner only, and wait until they, or folders, are on the disk (fsync(2)).

    Raises:
        OSError: something cannot be synced.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
                os.fchmod(descriptor, private_files.MODE)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def digest(path: Path) -> str:
    """Return the BLAKE3 digest of a file, in hexadecimal."""
    hasher = blake3(max_threads=blake3.AUTO)
    hasher.update_mmap(path)
    return str(hasher.hexdigest())


def verify(folder: Path, manifest: Manifest) -> None:
    """Compare every file with the manifest.

    Raises:
        SnapshotDamaged: a file is missing, has the wrong size, or changed; the error names the first one.
    """
    for entry in manifest.files:
        why = fault(folder / entry.name, entry)
        if why is not None:
            raise damaged(manifest, entry, why)


def damaged(manifest: Manifest, entry: StoredFile, why: str) -> SnapshotDamaged:
    """Return the error that says which file of a snapshot is wrong, and how."""
    return SnapshotDamaged(
        f"cannot use snapshot {manifest.label or manifest.id}: {entry.name} {why}",
        hint="restore another snapshot; this one can only be removed: "
        f"`holdfast rmi {manifest.label or manifest.id}`",
    )


def fault(path: Path, entry: StoredFile) -> str | None:
    """Return what is wrong with a file, as the end of a sentence; None if it is unchanged."""
    try:
        size = path.stat(follow_symlinks=False).st_size
        if size != entry.bytes:
            return f"has {size} bytes instead of {entry.bytes}"
        return None if digest(path) == entry.blake3 else "does not match its digest"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
