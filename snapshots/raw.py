"""The process images of a snapshot as the checkpointer expects them: plain files in its folder.

They are the truth of a snapshot until they are packed, and a cache after that (`raw_cache`). Files that are
missing or changed are rebuilt from the packs; the manifest's digests decide in either case.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.snapshots import files
from holdfast.snapshots.chunks import recipe
from holdfast.snapshots.chunks.chunks import Chunks, Unpacking
from holdfast.snapshots.chunks.packs import PackDamaged
from holdfast.snapshots.chunks.recipe import Recipe, RecipeDamaged
from holdfast.snapshots.manifest import Manifest, StoredFile
from holdfast.snapshots.raw_cache import IMAGES


def prepare(
    root: Path, folder: Path, kept: Manifest, *, compare: bool = True, threads: int = files.ALL
) -> None:
    """Ensure that every file of a snapshot is present and unchanged; rebuild the others.

    Unless they are to be compared with their digests, files of the right size count as unchanged. `threads`
    is how many read a file.

    Raises:
        SnapshotDamaged: a file cannot be obtained; the error names the first one.
        StoreError: there is not enough space to rebuild it.
    """
    source: _Source | None = None
    try:
        for entry in kept.files:
            why = files.fault(folder / entry.name, entry, compare=compare, threads=threads)
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
