"""Finds the snapshot, file or reference that a caller names, and returns its ladder.

Of remote ones only the description is read. It is not trusted: it can make a rung look possible that is not,
and then the import or the restore refuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.restore.compat import snapshot_ladder
from holdfast.snapshots.fitness import compare

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.snapshots.fitness import Ladder
    from holdfast.snapshots.manifest import Manifest


def ladder(context: Context, source: str, *, plain_http: bool = False) -> Ladder:
    """Return the ladder of the snapshot that `source` names.

    Raises:
        SnapshotNotFound, InvalidArgument: it names nothing.
        BundleRefused: it is not a bundle, or cannot be decrypted.
        RegistryError, StoreError: it cannot be read.
    """
    if "/" not in source:
        try:
            return snapshot_ladder.ladder(context, context.store.snapshot(source))
        except (SnapshotNotFound, InvalidArgument):
            if not Path(source).exists() and ":" not in source:
                raise
    needs = _elsewhere(context, source, plain_http=plain_http).all_needs()
    return compare(needs, snapshot_ladder.probe_machine(context, live=needs.live))


def _elsewhere(context: Context, source: str, *, plain_http: bool) -> Manifest:
    from holdfast.runtime.transfer import push_pull, receive

    if Path(source).exists() or source.startswith((".", "/")):
        from holdfast.snapshots.bundle import shared_blobs

        with shared_blobs.origin(Path(source)) as origin:
            return receive.described(context, origin)
    from holdfast.snapshots.registry.registry_endpoint import RegistryOrigin

    with RegistryOrigin(push_pull.registry_wire(source, plain_http=plain_http)) as registry:
        return receive.described(context, registry)
