"""Keeps what the store says of snapshots' sizes in step with what is on the disk, and sweeps.

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
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow

DEEP = 0.9
PATIENCE = 60.0


def image_ref(snapshot_id: str) -> str:
    """The name of a snapshot's image."""
    return f"holdfast/snapshot:{snapshot_id}"


def details(stored: Stored, grown: int) -> Mapping[str, Any]:
    """What a snapshot's row remembers of its storage.

    Bytes of its images as they are (`raw`), of what is kept for them (`own`), of pages that older snapshots
    need, too (`shared`), and of everything else (`besides`).
    """
    told = {"raw": stored.raw, "own": stored.own, "shared": stored.shared, "besides": grown + stored.files}
    return {**told, "packed": stored.packed}


def settle(context: Context, taken: SnapshotRow) -> SnapshotRow:
    """After a snapshot: pack it if that was put off, and see that the unpacked ones are not too many.

    Whatever goes wrong here can be done at another time: the snapshot is whole.
    """
    home, folder = context.home, context.home.snapshots / taken.id
    with suppress(HoldfastError, OSError):
        if taken.kind == "live" and not storage.packed(folder):
            with raw.held(folder):
                stored = storage.keep(home, folder, taken.id, manifest.read(folder).files, pack=True)
            taken = _resized(context, taken, stored.own, stored.shared, packed=stored.packed)
        raw.evict(home.snapshots)
    return taken


def sweep(context: Context, *, deep: bool = False) -> Swept:
    """Give back what no snapshot needs any more, and count anew what each one takes.

    Args:
        deep: also write packs anew of which only a little is not needed.

    Raises:
        SnapshotError: a snapshot's recipe is damaged, so that what it needs cannot be told.
        StoreError: the folder cannot be used.
    """
    if deep:
        for row in context.store.snapshots():
            settle(context, row)
    thin, patience = (DEEP, PATIENCE) if deep else (THIN, 0.0)
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
    """Bytes that a deep sweep would give back, about; 0 if that cannot be told."""
    with suppress(RecipeDamaged, OSError):
        return storage.waste(context.home, DEEP)
    return 0


def tidy(context: Context) -> None:
    """`sweep` after something else was done, which is done even if this cannot be."""
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
    told = {**known, "own": own, "shared": shared, "packed": packed}
    if told == known:
        return row
    with suppress(SnapshotNotFound):
        return context.store.update_snapshot(
            row.id, bytes=int(told["besides"]) + own, details=row.details.plus(storage=told)
        )
    return row


def sweep_images(context: Context) -> None:
    """Remove images of snapshots that are gone and that no container needs any more.

    A session restored from a snapshot keeps the image alive without a name when the snapshot is removed. One
    with a name but no snapshot was asked for by a process that died before the engine had made it.
    """
    engine, store = context.engine, context.store
    found = engine.images.having(holdfast_home=context.home.digest, holdfast_role="snapshot")
    # In this order: what is begun after the first look is no business of this one.
    known = {image_ref(row.id) for row in store.snapshots(pending=True)}
    needed = {row.image_id for row in store.snapshots()} | {row.image for row in store.sessions()}
    for image_id, tags in found.items():
        if image_id not in needed and not known.intersection(tags):
            with suppress(EngineError):  # a container still runs on it
                engine.images.remove(image_id)
