"""The lock of a snapshot: held by any number of restores, or by one removal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.base import locks
from holdfast.errors import SessionBusy, SnapshotInUse, SnapshotNotFound

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


@contextmanager
def used(context: Context, snapshot: SnapshotRow) -> Iterator[None]:
    """Keep the snapshot from being removed during the block.

    Raises:
        SnapshotNotFound: it is being removed, or was removed.
    """
    gone = SnapshotNotFound(f"cannot use snapshot {snapshot.name}: it was removed just now")
    try:
        with locks.shared(context.home.locks, _name(snapshot), f"use snapshot {snapshot.name}"):
            if context.store.find_snapshot(snapshot.id) is None:
                locks.discard(context.home.locks, _name(snapshot))
                raise gone
            yield
    except SessionBusy as error:
        raise gone from error


@contextmanager
def removing(context: Context, snapshot: SnapshotRow) -> Iterator[None]:
    """Keep the snapshot from being restored during the block, which removes it.

    Raises:
        SnapshotInUse: it is being restored, or removed by another caller.
    """
    name = _name(snapshot)
    try:
        held = locks.exclusive(context.home.locks, name, f"remove snapshot {snapshot.name}")
        with held:
            yield
            locks.discard(context.home.locks, name)
    except SessionBusy as error:
        raise SnapshotInUse(
            f"cannot remove snapshot {snapshot.name}: it is being restored or removed",
            hint="try again in a moment",
        ) from error


def _name(snapshot: SnapshotRow) -> str:
    return f"snapshot-{snapshot.id}"
