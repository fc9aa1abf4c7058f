"""Digests of a snapshot's files: made once after the thaw, checked before every restore.

BLAKE3 is read through a memory map, by default with one thread per core: a gigabyte in the page cache takes
about as long as starting a container, and is checked during that time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from blake3 import blake3

from holdfast.base import private_files
from holdfast.errors import SnapshotDamaged
from holdfast.snapshots.manifest import Manifest, StoredFile

# Written by the tools for human readers; nothing reads them back.
_NOT_KEPT = {"dump.log", "stats-dump"}
ALL = int(blake3.AUTO)
"""A thread for each processor."""
AT_ONCE = 8
"""Files synced in parallel: a journal commits them together."""

LOOK = 0.25
"""Seconds between two reports of how many bytes were read."""


class Ahead:
    """Digests and durability of one part of a folder, which is complete while the rest is being written.

    Both take the time that the disk and the processors need for gigabytes, and wait for nothing else.
    """

    def __init__(self, folder: Path, part: str, known: Mapping[str, str]) -> None:
        """Begin. The files of the part no longer change; files that only explain a dump are removed.

        `known` are digests of files that are not read, by their names below the folder.
        """
        self._folder = folder
        self._known = dict(known)
        self._paths = [
            path for path in _kept(folder / part) if path.is_file() and _name(path, folder) not in known
        ]
        self._sizes = [path.stat().st_size for path in self._paths]
        self._read = 0
        self._pool = ThreadPoolExecutor(3, thread_name_prefix="ahead")
        self._synced: Future[None] = self._pool.submit(sync, self._paths)
        self._digests: Future[list[str]] = self._pool.submit(self._digested)
        self._added: list[Future[None]] = []
        self._also: set[str] = set()

    def add(self, work: Callable[[], None], names: Iterable[str] = ()) -> None:
        """Begin a further write to the disk, for which `finish` also waits; `names` are on the disk then."""
        self._also.update(names)
        self._added.append(self._pool.submit(work))

    def watch(self, told: Callable[[int, int], None]) -> None:
        """Call a function with the bytes read so far, and all of them, until every digest is known."""
        while True:
            told(self._read, sum(self._sizes))
            if wait([self._digests], LOOK).done:
                return

    def digests(self) -> dict[str, str]:
        """Return the digest of each file, by its name below the folder.

        Raises:
            OSError: a file cannot be read.
        """
        return {**self._known, **dict(zip(self._names(), self._digests.result(), strict=True))}

    def finish(self) -> set[str]:
        """Wait until all files are on the disk, and return their names below the folder, and the added ones.

        Raises:
            OSError: a file cannot be written.
        """
        for each in (self._synced, *self._added):
            each.result()
        return {*self._names(), *self._also}

    def close(self) -> None:
        """Wait until all work has ended; must be called, even after failures."""
        self._pool.shutdown(cancel_futures=True)

    def _digested(self) -> list[str]:
        found = []
        for path, size in zip(self._paths, self._sizes, strict=True):
            found.append(digest(path))
            self._read += size
        return found

    def _names(self) -> list[str]:
        return [_name(path, self._folder) for path in self._paths]


def describe(folder: Path, known: Mapping[str, str] | None = None, *, besides: str = "") -> list[StoredFile]:
    """Describe every file below a folder, by name. Files that only explain a dump are removed first.

    `known` are digests that were made before, by name. A folder called `besides` is passed over.
    """
    known = known or {}
    found: list[StoredFile] = []
    for path in _kept(folder):
        if path.is_file():
            name = _name(path, folder)
            if besides and name.startswith(f"{besides}/"):
                continue
            size = path.stat().st_size
            found.append(StoredFile(name=name, bytes=size, blake3=known.get(name) or digest(path)))
    return found


def _name(path: Path, folder: Path) -> str:
    """Return the name of a path below a folder; `Path.relative_to` takes ten times as long."""
    return str(path)[len(str(folder)) + 1 :]


def _kept(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*"))
    for path in found:
        if path.name in _NOT_KEPT:
            path.unlink()
    return [path for path in found if path.name not in _NOT_KEPT]


def make_durable(folder: Path, besides: Collection[str] = ()) -> None:
    """Wait until everything below a folder is on the disk: files first, then the folders.

    `besides` are files that are safe elsewhere, by their names below the folder.

    Raises:
        OSError: something cannot be synced.
    """
    below = (path for path in folder.rglob("*") if _name(path, folder) not in besides)
    sync((*below, folder))


def sync(paths: Iterable[Path]) -> None:
    """Make files readable by their owner only, and wait until they are on the disk, folders last (fsync(2)).

    Raises:
        OSError: something cannot be synced.
    """
    folders: list[Path] = []
    plain: list[Path] = []
    for path in paths:
        (folders if path.is_dir() else plain).append(path)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sync") as pool:
        list(pool.map(_sync, plain))
    for path in folders:
        private_files.sync_folder(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, private_files.MODE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(path: Path, threads: int = ALL) -> str:
    """Return the BLAKE3 digest of a file, in hexadecimal."""
    hasher = blake3(max_threads=threads)
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
    """Return the error that names the wrong file of a snapshot, and its fault."""
    return SnapshotDamaged(
        f"cannot use snapshot {manifest.label or manifest.id}: {entry.name} {why}",
        hint="restore another snapshot; this one can only be removed: "
        f"`holdfast rmi {manifest.label or manifest.id}`",
    )


def fault(path: Path, entry: StoredFile, *, compare: bool = True, threads: int = ALL) -> str | None:
    """Return the fault of a file, as the end of a sentence; None if it is unchanged.

    Unless it is to be compared with its digest, only its size counts. `threads` is how many read it.
    """
    try:
        size = path.stat(follow_symlinks=False).st_size
        if size != entry.bytes:
            return f"has {size} bytes instead of {entry.bytes}"
        return None if not compare or digest(path, threads) == entry.blake3 else "does not match its digest"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
