"""Deletion of snapshots."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from holdfast.base import ballast
from holdfast.base.interrupts import held
from holdfast.errors import HoldfastError, SnapshotInUse
from holdfast.runtime.operations.context import Context
from holdfast.runtime.storage import snapshot_lock, snapshot_storage
from holdfast.runtime.storage.snapshot_storage import image_ref
from holdfast.runtime.store.rows import SnapshotRow


def remove_snapshots(context: Context, snapshots: Sequence[SnapshotRow]) -> None:
    """Delete snapshots, and sweep once for all of them; also for those before one that cannot be deleted.

    Raises:
        SnapshotInUse: as for `remove_snapshot`.
    """
    *first, last = snapshots
    gone = False
    try:
        for row in first:
            remove_snapshot(context, row, tidy=False)
            gone = True
        remove_snapshot(context, last)
    except HoldfastError:
        if gone:
            snapshot_storage.tidy(context)
        raise


def remove_snapshot(context: Context, snapshot: SnapshotRow, *, tidy: bool = True) -> None:
    """Delete a snapshot: image, files, row, in this order, so that a removal cut short can be repeated.

    Args:
        context: the context of the call.
        snapshot: the row of the snapshot.
        tidy: also free what nothing needs any more: images, and pages of memory, which takes reading all
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
        context.engine.images.remove(image_ref(snapshot.id))
        if tidy:
            snapshot_storage.sweep_images(context)
        folder = context.home.snapshots / snapshot.id
        shutil.rmtree(folder, ignore_errors=True)
        context.store.forget_snapshot(snapshot.id)
        shutil.rmtree(folder, ignore_errors=True)  # the packer may have written a recipe meanwhile
        if tidy:
            snapshot_storage.tidy(context)
