"""Storage accounting: keeps the sizes in the store in step with the disk, and sweeps.

`snapshots.storage` does the work; it does not know rows.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.base import ballast
from holdfast.base.interrupts import held
from holdfast.errors import EngineError, HoldfastError, SnapshotError, SnapshotInUse, StoreError
from holdfast.runtime.operations.context import Context
from holdfast.runtime.storage import packing_request, snapshot_image, snapshot_lock
from holdfast.runtime.store import packed_sizes
from holdfast.runtime.store.packed_sizes import Unpacked
from holdfast.runtime.store.rows import SnapshotRow
from holdfast.snapshots import manifest, raw_cache, storage
from holdfast.snapshots.chunks.pack_upkeep import THIN, Marks, Swept
from holdfast.snapshots.chunks.recipe import RecipeDamaged
from holdfast.snapshots.layer import image, unmade_image
from holdfast.snapshots.storage import Stored

if TYPE_CHECKING:
    from holdfast.engine.engine_images import ListedImage


DEEP = 0.9
STORE_LOCK_SECONDS = 60.0
SWEPT_AT_ONCE = 100
"""Snapshots whose needs are read by the process that deletes one: a few milliseconds."""
MOMENT = 0.2
"""Seconds in which the background packer lets others go first; a longer operation sweeps later."""


def image_ref(snapshot_id: str) -> str:
    """Return the name of a snapshot's image."""
    return image.ref_of(snapshot_id)


def details(stored: Stored, grown: int, layers: Mapping[str, int] | None = None) -> Mapping[str, Any]:
    """Return the storage facts in a snapshot's row until it is packed.

    Bytes of its process images uncompressed (`raw`), of what is stored for them alone (`own`), of pages that
    older snapshots also need (`shared`), and of everything else (`besides`). Of that, `files` are those of
    layers of its image that no older snapshot has; `layers` are all of these, by digest.
    """
    sizes = {"raw": stored.raw, "own": stored.raw, "shared": 0, "besides": grown + stored.files}
    return {**sizes, "packed": not stored.raw, **({"files": grown, "layers": dict(layers)} if layers else {})}


def leave_to_worker(context: Context) -> None:
    """Let a new snapshot be packed in the background, and report why earlier ones could not be.

    Where the disk becomes too small for the unpacked ones, the oldest are packed immediately. The new
    snapshot is complete in any case: errors are left to the next command.
    """
    report_trouble(context)
    with suppress(OSError, StoreError, sqlite3.Error):
        found = os.statvfs(context.home.snapshots)
        waiting = packed_sizes.unpacked(context.home.database)
        for one in too_many(waiting, found.f_bavail * found.f_frsize):
            if (row := context.store.find_snapshot(one.id)) is not None:
                settle(context, row)
    with suppress(OSError):
        packing_request.mark(context.home)
        packing_request.start(context.home)


def too_many(waiting: Sequence[Unpacked], free: int) -> list[Unpacked]:
    """Return the snapshots to pack immediately, so that plain ones fit in the free space. Pure.

    Args:
        waiting: the snapshots that are not packed yet, oldest first.
        free: the bytes that are free on their disk.
    """
    over = sum(one.bytes for one in waiting) - free
    going: list[Unpacked] = []
    for one in waiting:
        if over <= 0:
            break
        going.append(one)
        over -= one.bytes
    return going


def report_trouble(context: Context) -> None:
    """Report why snapshots could not be packed, if that is the case."""
    if why := packing_request.trouble(context.home):
        context.progress(f"snapshots could not be packed yet, and use more space until then: {why}")


def settle(context: Context, row: SnapshotRow) -> SnapshotRow:
    """Pack a snapshot now if that has not happened yet, for callers that need its final size.

    Its predecessors are packed first: pages shared with them are theirs.

    Raises:
        StoreError: it cannot be packed; it stays as it is.
    """
    line: list[SnapshotRow] = []
    at: SnapshotRow | None = row
    while at is not None and unpacked(at):
        line.append(at)
        at = context.store.find_snapshot(at.parent_snapshot_id)
    for each in reversed(line):
        row = _packed(context, each)
    return row


def _packed(context: Context, row: SnapshotRow) -> SnapshotRow:
    home, folder = context.home, context.home.snapshots / row.id
    if storage.packed(folder):  # by another process, just now
        return context.store.find_snapshot(row.id) or row
    try:
        with raw_cache.held(folder):
            stored, report = manifest.read(folder).files, context.doing_bytes(f"packing {row.name}")
            done = storage.pack(home, folder, row.id, stored, row.parent_snapshot_id, report)
    except OSError as error:
        raise StoreError(
            f"cannot pack snapshot {row.name}: {error.strerror or error}",
            hint="it can still be restored; make room, then `holdfast gc` packs it",
        ) from error
    if done is None:
        return row
    return _resized(context, row, done.written, done.shared)


def unpacked(row: SnapshotRow) -> bool:
    """Check whether a snapshot has plain images only, as far as its row says."""
    stored = row.details.storage
    return row.kind == "live" and stored is not None and not stored.get("packed", True)


def sweep(context: Context, *, deep: bool = False) -> Swept:
    """Free data that no snapshot needs any more, and recount each one's size.

    Args:
        deep: also rewrite packs of which only a little is no longer needed.

    Raises:
        SnapshotError: a snapshot's recipe is damaged, so that its needs are not known.
        StoreError: the folder cannot be used.
    """
    if deep:
        _settle_all(context)
    thin, patience = (DEEP, STORE_LOCK_SECONDS) if deep else (THIN, MOMENT)
    try:
        done = storage.sweep(context.home, thin=thin, patience=patience)
    except RecipeDamaged as error:
        raise SnapshotError(
            f"cannot free unneeded pages: {error}", hint="`holdfast verify` says which one"
        ) from error
    if done is None:
        _sweep_later(context)
        return Swept()
    swept, marks = done
    _count(context, marks)
    return swept


def _settle_all(context: Context) -> None:
    """Pack the background packer's backlog, and report what cannot be packed."""
    home, failed = context.home, ""
    snapshot_image.settle(context)
    for row in context.store.snapshots():
        try:
            settle(context, row)
        except StoreError as error:
            failed = str(error)
        except SnapshotError:  # a damaged one
            continue
    with suppress(OSError):
        raw_cache.evict(home.snapshots)
        if failed:
            context.progress(failed)
        elif packing_request.trouble(home):
            packing_request.mark(home)
            packing_request.start(home)


def waste(context: Context) -> int:
    """Return roughly how many bytes a deep sweep would free; 0 if that is not known."""
    with suppress(RecipeDamaged, OSError):
        return storage.waste(context.home, DEEP)
    return 0


def tidy(context: Context) -> None:
    """Run `sweep` after another operation, which succeeds even if this fails.

    A sweep reads what every snapshot needs. If there are many, the background packer does it.
    """
    with suppress(sqlite3.Error):
        packed_sizes.recount_layers(context.home.database)
    with suppress(HoldfastError, OSError):
        if sum(1 for _ in context.home.snapshots.iterdir()) > SWEPT_AT_ONCE:
            _sweep_later(context)
        else:
            sweep(context)


def _sweep_later(context: Context) -> None:
    with suppress(OSError):
        packing_request.mark_sweep(context.home)
        packing_request.start(context.home)


def _count(context: Context, marks: Marks) -> None:
    for row in context.store.snapshots():
        account = marks.accounts.get(row.id)
        if account is not None:
            _resized(context, row, account.own, account.shared)


def _resized(context: Context, row: SnapshotRow, own: int, shared: int) -> SnapshotRow:
    known = row.details.storage
    if known is None or {**known, "own": own, "shared": shared, "packed": True} == known:
        return row
    try:
        packed_sizes.record(context.home.database, row.id, own=own, shared=shared)
    except sqlite3.Error as error:
        raise StoreError(f"cannot use {context.home.database}: {error}") from error
    return context.store.find_snapshot(row.id) or row


def sweep_images(context: Context) -> None:
    """Remove images of removed snapshots that containers do not need any more."""
    for each in unneeded_images(context):
        with suppress(EngineError):  # a container still uses it
            context.engine.images.remove(each.id)


def unneeded_images(context: Context) -> list[ListedImage]:
    """Return images of removed snapshots; a container can still run on one.

    A session restored from a snapshot keeps its image alive, without a name, when the snapshot is removed. An
    image with a name but without a snapshot was requested by a process that died before the engine made it.
    """
    engine, store = context.engine, context.store
    found = engine.images.listed(holdfast_home=context.home.digest, holdfast_role="snapshot")
    # In this order, so that operations that start after the first listing are left alone.
    known = {image_ref(row.id) for row in store.snapshots(pending=True)}
    needed = {row.image_id for row in store.snapshots()} | {row.image for row in store.sessions()}
    return [each for each in found if each.id not in needed and not known.intersection(each.tags)]


def remove_snapshots(context: Context, snapshots: Sequence[SnapshotRow]) -> None:
    """Delete snapshots, and sweep once for all of them; also for those before one that cannot be deleted.

    Raises:
        SnapshotInUse: as for `remove_snapshot`.
    """
    *first, last = snapshots
    gone = False
    try:
        for row in first:
            remove_snapshot(context, row, alone=False)
            gone = True
        remove_snapshot(context, last)
    except HoldfastError:
        if gone:
            tidy(context)
        raise


def remove_snapshot(context: Context, snapshot: SnapshotRow, *, alone: bool = True) -> None:
    """Delete a snapshot: image, files, row, in this order, so that a removal cut short can be repeated.

    Args:
        context: the context of the call.
        snapshot: the row of the snapshot.
        alone: also free what nothing needs any more: images, and pages of memory, which takes reading all
            recipes.

    Raises:
        SnapshotInUse: a suspended session needs the snapshot, or it is being restored.
    """
    for session in context.store.sessions():
        if session.state == "suspended" and session.parent_snapshot_id == snapshot.id:
            raise SnapshotInUse(
                f"cannot remove snapshot {snapshot.name}: session {session.name} is suspended in it",
                hint=f"`holdfast resume {session.name}` or `holdfast rm {session.name}` first",
            )
    with ballast.given_up(context.home.root), held(), snapshot_lock.removing(context, snapshot):
        folder = context.home.snapshots / snapshot.id
        unmade_image.release(folder)  # from now on it cannot be made
        context.engine.images.remove(image_ref(snapshot.id))
        if alone:
            sweep_images(context)
        shutil.rmtree(folder, ignore_errors=True)
        context.store.forget_snapshot(snapshot.id)
        shutil.rmtree(folder, ignore_errors=True)  # the packer may have written a recipe meanwhile
        if alone:
            tidy(context)
