"""The process images of a snapshot as the checkpointer expects them: plain files in its folder.

They are the truth of a snapshot until they are packed. After that they are a cache, so that a snapshot just
taken or restored can be restored at once; the oldest are evicted when the cache exceeds its limit. Files that
are missing or changed are rebuilt from the packs; the manifest's digests decide in either case.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.base.quantities import parse_size
from holdfast.errors import SnapshotDamaged, StoreError
from holdfast.snapshots import files
from holdfast.snapshots.chunks import recipe
from holdfast.snapshots.chunks.chunks import Chunks
from holdfast.snapshots.chunks.packs import PackDamaged
from holdfast.snapshots.chunks.recipe import Recipe, RecipeDamaged
from holdfast.snapshots.chunks.unpacking import Unpacking
from holdfast.snapshots.manifest import Manifest, StoredFile

IMAGES = "images"
LIMIT = 2 << 30
VARIABLE = "HOLDFAST_RAW_CACHE"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep a snapshot's images from being evicted.

    Raises:
        SnapshotDamaged: the snapshot is gone.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise SnapshotDamaged(
            f"cannot use snapshot {folder.name}: its folder cannot be read ({error.strerror})"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def prepare(root: Path, folder: Path, kept: Manifest) -> None:
    """Ensure that every file of a snapshot is present and unchanged; rebuild those that are not.

    Raises:
        SnapshotDamaged: a file cannot be obtained; the error names the first one.
        StoreError: there is no space to rebuild it.
    """
    source: _Source | None = None
    try:
        for entry in kept.files:
            why = files.fault(folder / entry.name, entry)
            if why is None:
                continue
            source = source or _Source(root, folder, kept)
            source.restore(entry, why)
        with suppress(OSError):
            os.utime(folder / IMAGES)
    finally:
        if source is not None:
            source.close()


class _Source:
    """A source of single files of one snapshot."""

    def __init__(self, root: Path, folder: Path, kept: Manifest) -> None:
        self._folder = folder
        self._kept = kept
        self._chunks = Chunks(root)
        self._unpacking = Unpacking(self._chunks)
        self._why = ""
        self._recipe: Recipe | None = None
        try:
            self._recipe = recipe.read(folder, kept.id)
        except RecipeDamaged as error:
            self._why = f"; {error}"

    def close(self) -> None:
        self._chunks.close()

    def restore(self, entry: StoredFile, why: str) -> None:
        file = self._recipe.files.get(entry.name) if self._recipe is not None else None
        if file is None or not entry.name.startswith(f"{IMAGES}/"):
            raise files.damaged(self._kept, entry, why + self._why)
        path = self._folder / entry.name
        new = path.with_name(f".{secrets.token_hex(6)}.part")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._unpacking.write(file, new)
            again = files.fault(new, entry)
            if again is not None:
                raise files.damaged(self._kept, entry, f"as it is packed {again}")
            new.replace(path)
        except PackDamaged as error:
            raise files.damaged(self._kept, entry, f"cannot be unpacked: {error}") from error
        except OSError as error:
            raise StoreError(
                f"cannot unpack snapshot {self._kept.label or self._kept.id}: {error.strerror or error}",
                hint=f"make room in {self._folder.parent.parent}, then try again",
            ) from error
        finally:
            new.unlink(missing_ok=True)


def limit() -> int:
    """Return the bytes that unpacked images may take; HOLDFAST_RAW_CACHE, as `512m` or `8g`, else 2 GiB."""
    return size_of(VARIABLE, LIMIT)


def size_of(variable: str, default: int) -> int:
    """Return the size in an environment variable; the default if it is not set."""
    given = parse_size(os.environ.get(variable, ""))
    return default if given is None else given


def evict(snapshots: Path, most: int | None = None) -> int:
    """Remove packed images that were not used lately, until the rest is within the limit.

    Those in use stay, and so do those not packed. Returns how many bytes were removed.
    """
    left = limit() if most is None else most
    seen: set[int] = set()
    freed = 0
    for _, folder in sorted(_cached(snapshots), reverse=True):
        size = _size(folder / IMAGES, seen)
        if size <= left:
            left -= size
        elif _evict(folder):
            freed += size
    return freed


def _cached(snapshots: Path) -> Iterator[tuple[int, Path]]:
    for folder in snapshots.iterdir():
        with suppress(OSError):
            if (folder / recipe.FILE).exists():
                yield (folder / IMAGES).stat().st_mtime_ns, folder


def _size(images: Path, seen: set[int]) -> int:
    total = 0
    with suppress(OSError), os.scandir(images) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            if found.st_ino not in seen:
                seen.add(found.st_ino)
                total += found.st_blocks * 512
    return total


def _evict(folder: Path) -> bool:
    """Remove the images of one snapshot unless they are in use, or are the only copy."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = recipe.read(folder, folder.name)
        if found is None:
            return False
        with os.scandir(folder / IMAGES) as entries:
            if any(f"{IMAGES}/{entry.name}" not in found.files for entry in entries if entry.name[0] != "."):
                return False
        shutil.rmtree(folder / IMAGES, ignore_errors=True)
    except (OSError, RecipeDamaged):
        return False
    finally:
        os.close(descriptor)
    return True
