"""Verification of all the parts of snapshots: reports damage and the snapshots affected, and repairs.

A snapshot is intact if its manifest is valid, the engine has its image with all layers, its other files match
their digests, and its process images exist: packed, or plain. If one of the two forms is intact, the other is
repaired from it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import SnapshotDamaged, SnapshotNewer, SnapshotNotFound
from holdfast.runtime.storage import snapshot_image, snapshot_storage
from holdfast.snapshots import files, manifest, raw, raw_cache, storage
from holdfast.snapshots.chunks import pack_upkeep, recipe
from holdfast.snapshots.chunks.chunks import Chunks
from holdfast.snapshots.chunks.pack_upkeep import Findings
from holdfast.snapshots.chunks.recipe import RecipeDamaged
from holdfast.snapshots.manifest import Manifest

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage that was found. `snapshot` is the id concerned, empty for shared storage."""

    snapshot: str
    name: str
    text: str
    repaired: bool

    def __str__(self) -> str:
        what = f"snapshot {self.name}: {self.text}" if self.snapshot else self.text
        return f"{what} (repaired)" if self.repaired else what


@dataclass(slots=True)
class Verified:
    """The outcome of a verification. `bytes` counts the pages and plain files that were compared.

    `newer` are the names of snapshots that a newer version of Holdfast wrote: they were left as they are.
    """

    snapshots: int = 0
    bytes: int = 0
    findings: list[Damage] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if every snapshot that was checked can be restored, possibly after a repair."""
        return not self.damaged

    @property
    def damaged(self) -> list[str]:
        """The names of snapshots that cannot be restored."""
        return sorted({one.name for one in self.findings if one.snapshot and not one.repaired})


def verify(context: Context, chosen: Sequence[SnapshotRow]) -> Verified:
    """Check snapshots and all packs, repair, and mark what cannot be repaired.

    Raises:
        EngineUnavailable: the images cannot be inspected.
        StoreError: another process keeps changing what is stored.
    """
    result = Verified(len(chosen))
    with Chunks(context.home.root) as chunks:
        if chunks.packs.is_dir():
            context.doing("checking all stored pages")
            # Damaged pages are taken out at once, so that nothing new relies on them.
            with chunks.changing():
                found = pack_upkeep.check_packs(chunks)
                names = pack_upkeep.mend_packs(chunks, found)
            result.findings += [Damage("", "", text, repaired) for text, repaired in names]
        else:
            found = Findings()
        result.bytes += found.checked
        snapshot_image.settle(context, {row.id for row in chosen})
        for number, row in enumerate(chosen):
            context.doing("checking snapshots", number, len(chosen))
            _Look(context, chunks, found, row, result).run()
    snapshot_storage.tidy(context)
    context.idle()
    return result


class _Look:
    """The verification of one snapshot."""

    def __init__(
        self, context: Context, chunks: Chunks, found: Findings, row: SnapshotRow, result: Verified
    ) -> None:
        self._context = context
        self._chunks = chunks
        self._found = found
        self._row = row
        self._result = result
        self._folder: Path = context.home.snapshots / row.id

    def run(self) -> None:
        """Find damage, repair it, and mark the snapshot."""
        try:
            with raw_cache.held(self._folder):
                self._check()
        except SnapshotNewer:
            self._result.newer.append(self._row.name)
            return
        except SnapshotDamaged as error:
            self._mark(str(error).partition(": ")[2] or str(error))
            return
        if self._row.state == "damaged":
            self._update("ready")
            self._add_finding("was marked as damaged and is whole", repaired=True)

    def _check(self) -> None:
        kept = manifest.read(self._folder)
        if kept.id != self._row.id:
            raise SnapshotDamaged(f"cannot use snapshot: its manifest belongs to {kept.id}")
        self._check_image(kept)
        for entry in kept.files:
            if not entry.name.startswith(f"{raw_cache.IMAGES}/"):
                self._result.bytes += entry.bytes
                why = files.fault(self._folder / entry.name, entry)
                if why is not None:
                    raise files.damaged(kept, entry, why)
        if kept.processes is not None:
            self._check_images(kept)

    def _check_image(self, kept: Manifest) -> None:
        engine = self._context.engine
        snapshot_image.obtain(self._context, self._row)
        if engine.images.id(kept.image) is None:
            raise SnapshotDamaged("cannot use snapshot: its image was removed from the engine")
        layers = engine.images.layers(kept.image)
        missing = [layer for layer in layers if not os.path.lexists(layer)]
        # If none exists at all, they are where this process cannot look.
        if 0 < len(missing) < len(layers):
            raise SnapshotDamaged(
                f"cannot use snapshot: its image lacks {len(missing)} of its layers: {missing[0]} is gone"
            )

    def _check_images(self, kept: Manifest) -> None:
        packed, why = self._packed(kept)
        plain = (self._folder / raw_cache.IMAGES).is_dir()
        images = [entry for entry in kept.files if entry.name.startswith(f"{raw_cache.IMAGES}/")]
        wrong = [(entry, files.fault(self._folder / entry.name, entry)) for entry in images] if plain else []
        faults = [(entry, fault) for entry, fault in wrong if fault is not None]
        self._result.bytes += sum(entry.bytes for entry, fault in wrong if fault is None)
        if packed and faults:
            raw.prepare(self._context.home.root, self._folder, kept)
            self._add_finding(f"{faults[0][0].name} {faults[0][1]}; made again from the packs", repaired=True)
        elif not packed and (not plain or faults):
            if not why:
                raise files.damaged(kept, *(faults[0] if faults else (images[0], "is missing")))
            raise SnapshotDamaged(f"cannot use snapshot: {why}")
        elif not packed and why:
            self._pack_again(kept)
            self._add_finding(f"{why}; packed again from its plain files", repaired=True)

    def _packed(self, kept: Manifest) -> tuple[bool, str]:
        """Check whether the packs have all of it; if not, record why, unless it was never packed."""
        try:
            found = recipe.read(self._folder, kept.id)
        except RecipeDamaged as error:
            return False, str(error)
        if found is None:
            return False, ""
        wanted = {one.name: one.bytes for one in kept.files if one.name.startswith(f"{raw_cache.IMAGES}/")}
        if {name: file.bytes for name, file in found.files.items()} != wanted:
            return False, "its recipe is for different files"
        why = self._found.damage(self._chunks, found)
        return why is None, why or ""

    def _pack_again(self, kept: Manifest) -> None:
        home = self._context.home
        try:
            parent = self._row.parent_snapshot_id
            storage.pack(home, self._folder, kept.id, kept.files, parent)
        except OSError as error:
            raise SnapshotDamaged(f"cannot use snapshot: it cannot be packed again ({error})") from error

    def _mark(self, why: str) -> None:
        self._add_finding(why, repaired=False)
        self._update("damaged", why)

    def _update(self, state: str, why: str = "") -> None:
        details = self._row.details.plus(damage=why or None)
        with suppress(SnapshotNotFound):
            self._context.store.update_snapshot(self._row.id, state=state, details=details)

    def _add_finding(self, text: str, *, repaired: bool) -> None:
        self._result.findings.append(Damage(self._row.id, self._row.name, text, repaired))


def refuse(row: SnapshotRow) -> None:
    """Refuse a snapshot that was found damaged.

    Raises:
        SnapshotDamaged: the snapshot is marked as damaged.
    """
    if row.state == "damaged":
        raise SnapshotDamaged(
            f"cannot use snapshot {row.name}: {row.details.damage or 'it is marked as damaged'}",
            hint=f"`holdfast verify {row.name}` checks again; `holdfast rmi {row.name}` removes it",
        )
