"""Tries on a capture what a restore does to its images before CRIU runs, and reports what it would refuse.

It is the same code on the same images; the rest only a kernel can decide. The host judges privileges
(`snapshots/snapshot_policy.py`) by the tree that is reported along with this.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.snapshots.checkpointer.criu.source import ImageFolder
from holdfast.snapshots.checkpointer.ground import folders, tree
from holdfast.snapshots.checkpointer.record import ancestry, escaping_links, lost_folders
from holdfast.snapshots.checkpointer.record.outside import strange
from holdfast.snapshots.checkpointer.restore import births, restore
from holdfast.snapshots.checkpointer.wire.requests import CaptureTarget, Describe


def hindrances(request: Describe, source: ImageFolder) -> list[str]:
    """Return sentences without their subject, as `strange` does; none if nothing prevents a restore.

    `source` are the images the request names; what was read of them for their description is not read again.

    Raises:
        Unreadable: the images are not what a restore reads.
        TargetMismatch: the session is not the expected one.
        OSError: they cannot be read, or the scratch folder cannot be written.
    """
    if request.target is not None:
        tree.check_container(request.target.init_pid, request.target.container)
    kept = folders.staged(request.folder)
    restore.read_facts(kept)
    scratch = folders.create_scratch(request.folder)
    try:
        restore.prepare(kept, scratch, old=(), new=(), lazy=False)
    finally:
        folders.discard_scratch(request.folder)
    return list(_found(source, request.target))


def _found(source: ImageFolder, target: CaptureTarget | None) -> Iterator[str]:
    yield from strange(source)
    lost = ancestry.lost(births.tasks(source))
    if lost:
        yield f"has processes whose session cannot be begun again: {', '.join(map(str, sorted(lost)[:5]))}"
    if target is not None:
        root = Path(f"/proc/{target.init_pid}/root")
        astray = escaping_links.astray(root, escaping_links.names(source))
        if astray is not None:
            yield f"has open {astray[:300]!r}, which a link takes out of it"
        lost_file = lost_folders.first(root, lost_folders.open_files(source))
        if lost_file is not None:
            yield f"has open {lost_file[:300]!r}, whose folder was replaced by something else"
