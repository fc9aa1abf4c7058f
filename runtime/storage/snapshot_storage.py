"""Storage accounting: keeps the sizes in the store in step with the disk, and sweeps.

`snapshots.storage` does the work; it knows no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import EngineError, HoldfastError, SnapshotError, SnapshotNotFound
from holdfast.snapshots import manifest, raw, storage
from holdfast.snapshots.chunks.recipe import RecipeDamaged
from holdfast.snapshots.chunks.sweeping import THIN, Marks, Swept
from holdfast.snapshots.storage import Stored

if TYPE_CHECKING:
    from holdfast.engine.engine_images import ListedImage
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow

DEEP = 0.9
STORE_LOCK_SECONDS = 60.0


def image_ref(snapshot_id: str) -> str:
    """Return the name of a snapshot's image."""
    return f"holdfast/snapshot:{snapshot_id}"


def details(stored: Stored, grown: int) -> Mapping[str, Any]:
    """Return what a snapshot's row records of its storage.

    Bytes of its process images uncompressed (`raw`), of what is stored for them alone (`own`), of pages that
    older snapshots also need (`shared`), and of everything else (`besides`).
    """
    sizes = {"raw": stored.raw, "own": stored.own, "shared": stored.shared, "besides": grown + stored.files}
    return {**sizes, "packed": stored.packed}


def settle(context: Context, taken: SnapshotRow) -> SnapshotRow:
    """Pack a new snapshot if that was postponed, and evict unpacked images beyond the limit.

    Errors are ignored, since this can be done later: the snapshot is complete.
    """
    home, folder = context.home, context.home.snapshots / taken.id
    with suppress(HoldfastError, OSError):
        if taken.kind == "live" and not storage.packed(folder):
            with raw.held(folder):
                entries, parent = manifest.read(folder).files, taken.parent_snapshot_id
                stored = storage.keep(home, folder, taken.id, entries, pack=True, parent=parent)
            taken = _resized(context, taken, stored.own, stored.shared, packed=stored.packed)
        raw.evict(home.snapshots)
    return taken


def sweep(context: Context, *, deep: bool = False) -> Swept:
    """Free what no snapshot needs any more, and count again what each one takes.

    Args:
        deep: also rewrite packs of which only a little is no longer needed.

    Raises:
        SnapshotError: a snapshot's recipe is damaged, so that what it needs is not known.
        StoreError: the folder cannot be used.
    """
    if deep:
        for row in context.store.snapshots():
            settle(context, row)
    thin, patience = (DEEP, STORE_LOCK_SECONDS) if deep else (THIN, 0.0)
    try:
        done = storage.sweep(context.home, thin=thin, patience=patience)
    except RecipeDamaged as error:
        raise SnapshotError(
            f"cannot free what no snapshot needs: of one, {error}", hint="`holdfast verify` says which one"
        ) from error
    if done is None:
        return Swept()
    swept, marks = done
    _count(context, marks)
    return swept


def waste(context: Context) -> int:
    """Return roughly how many bytes a deep sweep would free; 0 if that is not known."""
    with suppress(RecipeDamaged, OSError):
        return storage.waste(context.home, DEEP)
    return 0


def tidy(context: Context) -> None:
    """Run `sweep` after another operation, which succeeds even if this fails."""
    with suppress(HoldfastError, OSError):
        sweep(context)


def _count(context: Context, marks: Marks) -> None:
    for row in context.store.snapshots():
        account = marks.accounts.get(row.id)
        if account is not None:
            _resized(context, row, account.own, account.shared, packed=True)


def _resized(context: Context, row: SnapshotRow, own: int, shared: int, *, packed: bool) -> SnapshotRow:
    known = row.details.storage
    if known is None:
        return row
    sizes = {**known, "own": own, "shared": shared, "packed": packed}
    if sizes == known:
        return row
    with suppress(SnapshotNotFound):
        return context.store.update_snapshot(
            row.id, bytes=int(sizes["besides"]) + own, details=row.details.plus(storage=sizes)
        )
    return row


def sweep_images(context: Context) -> None:
    """Remove images of snapshots that are gone and that no container needs any more."""
    for image in unneeded_images(context):
        with suppress(EngineError):  # a container still uses it
            context.engine.images.remove(image.id)


def unneeded_images(context: Context) -> list[ListedImage]:
    """Return images of snapshots that are gone; a container may still run on one.

    A session restored from a snapshot keeps its image alive, without a name, when the snapshot is removed. An
    image with a name but without a snapshot was requested by a process that died before the engine made it.
    """
    engine, store = context.engine, context.store
    found = engine.images.listed(holdfast_home=context.home.digest, holdfast_role="snapshot")
    # In this order, so that operations that start after the first listing are left alone.
    known = {image_ref(row.id) for row in store.snapshots(pending=True)}
    needed = {row.image_id for row in store.snapshots()} | {row.image for row in store.sessions()}
    return [each for each in found if each.id not in needed and not known.intersection(each.tags)]
