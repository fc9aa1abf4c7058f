"""Snapshots to registries and from registries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.runtime.moving import receiving, sending
from holdfast.runtime.moving.remote import Progress, Pushed
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.resuming import Resuming
from holdfast.snapshots.registry.ends import RegistryDestination, RegistryOrigin
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.wire import Wire

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.store.rows import SnapshotRow


def push(
    controller: Holdfast,
    snapshot: SnapshotRow,
    reference: str,
    key: str | None,
    passphrase: str | None,
    *,
    compression: str,
    plain_http: bool,
    progress: Progress,
) -> Pushed:
    """Send a snapshot to a registry. Raises as `sending.send`, InvalidArgument, and RegistryError."""
    sign = Keys(controller.home).signer(key, passphrase)
    wire = Wire(Reference.parse(reference), plain_http=plain_http)
    with RegistryDestination(wire, controller.home.root / "uploads") as destination:
        sent = sending.send(
            controller, snapshot, destination, sign=sign, compression=compression, progress=progress
        )
    return Pushed(str(destination.reference), sent.digest, sent.bytes, sent.sent, sent.signed_by)


def pull(
    controller: Holdfast,
    reference: str,
    label: str | None,
    *,
    files_only: bool,
    plain_http: bool,
    options: Mapping[str, Any],
    progress: Progress,
) -> SnapshotRow:
    """Take a snapshot in from a registry. Raises as `receiving.receive`, and InvalidArgument."""
    wire = Wire(Reference.parse(reference), plain_http=plain_http)
    with Resuming(RegistryOrigin(wire), controller.home.root / "downloads") as origin:
        row = receiving.receive(
            controller, origin, label=label, files_only=files_only, options=options, progress=progress
        )
        origin.discard()
    return row
