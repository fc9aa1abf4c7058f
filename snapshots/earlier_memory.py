"""Memory unchanged since the last snapshot, as hard links to its images.

The checkpointer knows which memory that is, and makes the links (`checkpointer/criu/earlier_images.py`). Here
is decided which snapshot it can build on. Linked files are not read again.

A program pays for it with a page fault at its first write to each page after a capture, and with huge pages
that are split. So the second capture within ten minutes begins to note writes, and later ones build on it.
HOLDFAST_TRACK_WRITES=0 has each capture write all memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.errors import SnapshotDamaged, SnapshotNewer
from holdfast.snapshots import files, manifest, raw_cache
from holdfast.snapshots.checkpointer.record.earlier_names import PREFIX, RECENT, name_before

VARIABLE = "HOLDFAST_TRACK_WRITES"


@dataclass(frozen=True, slots=True)
class EarlierMemory:
    """The snapshot that a capture can build on: its id, empty for none, and the digests of its files."""

    snapshot: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)

    def linked(self, folder: Path) -> dict[str, str]:
        """Return the digests of the files that a new snapshot shares with it, by their names there.

        Raises:
            SnapshotDamaged: this one lacks a file of it.
        """
        found: dict[str, str] = {}
        for path in (folder / raw_cache.IMAGES).glob(f"{PREFIX}*"):
            before = name_before(path.name)
            known = self.digests.get(f"{raw_cache.IMAGES}/{before}") if before else None
            if known is None:
                raise SnapshotDamaged(f"cannot build on snapshot {self.snapshot}: it has no {before}")
            found[f"{raw_cache.IMAGES}/{path.name}"] = known
        return found


def is_wanted(last: datetime | None) -> bool:
    """Return whether writes are to be noted from now on, after a last snapshot of that time."""
    if last is None or os.environ.get(VARIABLE) == "0":
        return False
    return datetime.now(UTC) - last <= timedelta(seconds=RECENT)


@contextmanager
def held(snapshots: Path, snapshot: str | None) -> Iterator[EarlierMemory]:
    """Yield the snapshot that the next capture can build on, if it is whole; keep it until the block ends.

    None: it builds on none.
    """
    if not snapshot:
        yield EarlierMemory()
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(raw_cache.held(snapshots / snapshot))
            found = _found(snapshots / snapshot)
        except (SnapshotDamaged, SnapshotNewer):
            found = EarlierMemory()
        yield found


def _found(folder: Path) -> EarlierMemory:
    kept = manifest.read(folder)
    images = [entry for entry in kept.files if entry.name.startswith(f"{raw_cache.IMAGES}/")]
    if any(files.fault(folder / entry.name, entry, compare=False) is not None for entry in images):
        return EarlierMemory()
    return EarlierMemory(kept.id, {entry.name: entry.blake3 for entry in images})
