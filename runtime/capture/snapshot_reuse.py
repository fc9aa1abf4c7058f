"""Reuse of a session's last snapshot, under a new id, if nothing has happened since.

Nothing is captured and the session is not frozen. Files are hard links, pages are in packs or will be, and
the image gets a second name, so that each of the two snapshots can be removed without the other.
"""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.capture import reuse_check
from holdfast.runtime.capture.capture_record import moment_of
from holdfast.runtime.capture.snapshot_rows import complete
from holdfast.runtime.journal import host_events
from holdfast.runtime.storage.snapshot_storage import image_ref
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.snapshots import files, manifest, raw_cache, storage
from holdfast.snapshots.chunks import recipe
from holdfast.snapshots.chunks.chunks import Chunks, PacksBusy
from holdfast.snapshots.chunks.recipe import RecipeDamaged
from holdfast.snapshots.failure import of_row
from holdfast.snapshots.layer import unmade_image

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, SessionRow, SnapshotRow
    from holdfast.snapshots.manifest import Manifest

STORE_LOCK_SECONDS = 0.05


def share(
    context: Context, session: SessionRow, operation: OperationRow, row: SnapshotRow
) -> SnapshotRow | None:
    """Complete a pending snapshot from the last one if nothing has changed; None if it has.

    Any obstacle leads to a capture, which reports it if it matters.
    """
    began = time.monotonic()
    found = reuse_check.since(context, session)
    if found is None:
        return None
    last, moment = found
    home, staging = context.home, context.home.staging / operation.id
    own: int | None = None
    source = home.snapshots / last.id
    try:
        with (
            raw_cache.held(source),
            Chunks(home.root) as chunks,
            chunks.changing(STORE_LOCK_SECONDS),
            ThreadPoolExecutor(1, "tag") as meanwhile,
        ):
            kept = manifest.read(source).model_copy(
                update={
                    "id": row.id,
                    "label": row.label,
                    "created_at": row.created_at,
                    "parent": row.parent_snapshot_id,
                    "options": session.options,  # its network options can be changed from outside
                    "failure": of_row(row.details),
                }
            )
            # If this fails, the capture that follows gives the name to its own image, or is undone.
            staging.mkdir(mode=0o700)
            unmade = unmade_image.share(source, staging)
            there = unmade.below if unmade is not None else kept.image
            tagged = meanwhile.submit(context.engine.images.tag, there, image_ref(row.id))
            linked = _link(source, staging, last.id, kept)
            tagged.result()
            own = linked
    except (HoldfastError, RecipeDamaged, PacksBusy, OSError):
        own = None
    if own is None:
        shutil.rmtree(staging, ignore_errors=True)
        return None
    spent = round(time.monotonic() - began, 4)
    details = SnapshotDetails({**last.details.inherited, **row.details, **moment_of(moment)})
    now = context.store.find_session(session.id)  # the record is changed from outside
    details = details.plus(task=now.details.task if now is not None else None)
    details = details.plus(frozen_seconds=0.0, capture_seconds=spent, same_as=last.id)
    if stored := last.details.storage:
        shared = int(stored["own"]) + int(stored["shared"])
        files = {"files": 0} if "files" in stored else {}
        details = details.plus(storage={**stored, "own": own, "shared": shared, "besides": 0, **files})
    ready = {
        "state": "ready",
        "image_id": last.image_id,
        "bytes": own,
        "details": details,
    }
    storage.publish(None, home, staging, row.id)
    host_events.catch_up(context, session, details)
    return complete(context, session, operation.id, row.id, ready)


def _link(source: Path, folder: Path, last: str, kept: Manifest) -> int | None:
    """Make a folder with the files of another snapshot and a manifest of its own; return its bytes of disk
    space.

    None if that is not possible.
    """
    (folder / raw_cache.IMAGES).mkdir(mode=0o700, parents=True)
    packed = recipe.pass_on(source, last, folder, kept.id)
    for entry in kept.files:
        try:
            os.link(f"{source}/{entry.name}", f"{folder}/{entry.name}")
        except FileNotFoundError:
            if packed is None or entry.name not in packed:
                return None
    manifest.write(folder, kept)
    # The rest is hard links.
    new = [folder / manifest.FILE, *([] if packed is None else [folder / recipe.FILE])]
    files.sync((*new, folder / raw_cache.IMAGES, *unmade_image.folders_of(folder), folder))
    return sum(path.stat().st_size for path in new)
