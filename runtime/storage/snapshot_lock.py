"""The lock of a snapshot: held by any number of restores, or by one removal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.base import locks
from holdfast.errors import SessionBusy, SnapshotInUse, SnapshotNotFound

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow

REMOVAL_SECONDS = 10.0
"""How long the removal of one snapshot is waited for."""


@contextmanager
def used(context: Context, snapshot: SnapshotRow) -> Iterator[None]:
    """Keep the snapshot from being removed during the block.

    Raises:
        SnapshotNotFound: it is being removed, or was removed.
    """
    gone = SnapshotNotFound(f"cannot use snapshot {snapshot.name}: it was removed just now")
    try:
        with locks.shared(context.home.locks, name(snapshot.id), f"use snapshot {snapshot.name}"):
            if context.store.find_snapshot(snapshot.id) is None:
                locks.discard(context.home.locks, name(snapshot.id))
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
    try:
        held = locks.exclusive(context.home.locks, name(snapshot.id), f"remove snapshot {snapshot.name}")
        with held:
            yield
            locks.discard(context.home.locks, name(snapshot.id))
    except SessionBusy as error:
        raise SnapshotInUse(
            f"cannot remove snapshot {snapshot.name}: it is being restored or removed",
            hint="try again in a moment",
        ) from error


def is_kept(home: Home, snapshot_id: str) -> bool:
    """Check whether a snapshot is there, after waiting for a removal that has begun."""
    try:
        with locks.shared(home.locks, name(snapshot_id), "look at a snapshot", REMOVAL_SECONDS):
            there = (home.snapshots / snapshot_id).exists()
            if not there:
                locks.discard(home.locks, name(snapshot_id))
            return there
    except SessionBusy:
        return False


def name(snapshot_id: str) -> str:
    """Return the name of a snapshot's lock."""
    return f"snapshot-{snapshot_id}"
