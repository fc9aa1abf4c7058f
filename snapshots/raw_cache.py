"""The cache of plain process images: the ones kept after packing.

With them a snapshot that was just taken or restored can be restored immediately. The oldest are evicted
when the cache exceeds its limit; the only copy, and used ones, stay. Knows no manifests.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.base.quantities import parse_size
from holdfast.errors import SnapshotDamaged
from holdfast.snapshots.chunks import recipe
from holdfast.snapshots.chunks.recipe import RecipeDamaged

IMAGES = "images"
LIMIT = 2 << 30
VARIABLE = "HOLDFAST_RAW_CACHE"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep a snapshot's images from being evicted.

    Raises:
        SnapshotDamaged: the snapshot was removed.
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


def limit() -> int:
    """Return the limit of bytes of unpacked images; HOLDFAST_RAW_CACHE, as `512m` or `8g`, else 2 GiB."""
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
