"""The life of a snapshot's files: made durable at first, packed later, rebuilt, swept when not needed.

Combines `chunks` and `raw` for the layers above, which know sessions and rows; here there are only folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.base import private_files
from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.snapshots import files, raw_cache
from holdfast.snapshots.checkpointer.record import earlier_names
from holdfast.snapshots.chunks import pack_upkeep, packing, recipe
from holdfast.snapshots.chunks.chunks import Chunks, PacksBusy
from holdfast.snapshots.chunks.pack_upkeep import Marks, Swept
from holdfast.snapshots.chunks.packing import PackedFiles
from holdfast.snapshots.manifest import StoredFile

WAIT = 60.0
"""Seconds to wait for others that pack; after that the snapshot stays as it is for now."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes of one snapshot: of its plain images, and of its other files."""

    raw: int
    files: int


def keep(folder: Path, entries: Sequence[StoredFile], done: files.Ahead | None = None) -> Stored:
    """Make a snapshot's folder durable unchanged. Its images are packed later.

    `done` has been writing some of the files to the disk.

    Raises:
        OSError: it cannot be written.
    """
    files.make_durable(folder, done.finish() if done is not None else ())
    own = [entry for entry in entries if not earlier_names.is_earlier(entry.name.rpartition("/")[2])]
    images = sum(entry.bytes for entry in own if entry.name.startswith(f"{raw_cache.IMAGES}/"))
    return Stored(images, sum(entry.bytes for entry in own) - images)


def pack(
    home: Home,
    folder: Path,
    snapshot: str,
    entries: Sequence[StoredFile],
    parent: str | None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> PackedFiles | None:
    """Pack a snapshot's images, which stay. Return None if others keep changing the packs.

    `parent` is the snapshot that it most resembles, so that unchanged parts are found fast. `progress` is
    called with the bytes packed, and the total.

    Raises:
        OSError: it cannot be written.
        StoreError: the folder of packs cannot be used.
    """
    images = [entry for entry in entries if entry.name.startswith(f"{raw_cache.IMAGES}/")]
    names, total = [each.name for each in images], sum(each.bytes for each in images)
    with Chunks(home.root) as chunks, suppress(PacksBusy):
        similar = recipe.guide(home.snapshots / parent, parent) if parent else None
        return packing.pack(
            chunks, folder, snapshot, names, WAIT, similar, progress=lambda done: progress(done, total)
        )
    return None


def publish(engine: Engine | None, home: Home, folder: Path, snapshot: str) -> None:
    """Make a durable folder a snapshot, by its new name, once the engine's part is also on the disk.

    Without an engine, its part is there already.

    On return it cannot be lost with the power: its row can report that it is ready.

    Raises:
        OSError: something cannot be written.
    """
    if engine is not None:
        engine.layers.make_durable()
    folder.rename(home.snapshots / snapshot)
    private_files.sync_folder(home.snapshots)
    private_files.sync_folder(folder.parent)


def packed(folder: Path) -> bool:
    """Return whether a snapshot has a recipe."""
    return (folder / recipe.FILE).exists()


def sweep(home: Home, *, thin: float = pack_upkeep.THIN, patience: float = 0.0) -> tuple[Swept, Marks] | None:
    """Remove unneeded pages from the packs. Return None if another process is packing.

    Raises:
        RecipeDamaged: a snapshot's needs cannot be determined; nothing was removed.
        StoreError, OSError: the folder cannot be used.
    """
    with Chunks(home.root) as chunks:
        if not chunks.names():
            return Swept(), Marks()
        with suppress(PacksBusy), chunks.changing(patience):
            return pack_upkeep.sweep(chunks, folders(home), thin)
    return None


def waste(home: Home, thin: float) -> int:
    """Return about how many bytes in packs no snapshot needs.

    Raises:
        RecipeDamaged: what a snapshot needs cannot be determined.
    """
    with Chunks(home.root) as chunks:
        return pack_upkeep.waste(chunks, folders(home), thin) if chunks.names() else 0


def folders(home: Home) -> Iterator[Path]:
    """Yield every folder that may have a recipe. One that is renamed meanwhile appears at least once."""
    for parent in (home.staging, home.snapshots):
        yield from parent.iterdir()
