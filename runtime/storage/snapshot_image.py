"""The image of a snapshot: everything that reads it in the engine asks for it here first.

A capture leaves its making (`snapshots/layer/unmade_image.py`) to its first user, or to the background
packer. Which of the two it is, and when, makes no difference to the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.snapshots.layer import image, unmade_image

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


def obtain(context: Context, snapshot: SnapshotRow) -> str:
    """See that the engine has the image of a snapshot, and return its name.

    An image that was made once and is missing now is not noticed here.

    Raises:
        SnapshotDamaged: an image or a copy that it would be made of is missing or damaged.
        EngineError: the engine refuses.
        StoreError: a copy cannot be read.
    """
    ref = image.ref_of(snapshot.id)
    try:
        unmade_image.obtain(context.engine, context.home.snapshots / snapshot.id, ref)
    except OSError as error:
        raise StoreError(
            f"cannot make the image of snapshot {snapshot.name}: {error.strerror or error}",
            hint="make room, then try again",
        ) from error
    return ref


def settle(context: Context, only: Collection[str] | None = None) -> None:
    """Make all images that are still to be made, or only of some snapshots; report what fails.

    Their sources are removed.
    """
    snapshots = context.home.snapshots
    if unmade_image.folders(snapshots):
        for why in unmade_image.settle(context.engine, snapshots, only):
            context.progress(why)
