"""Snapshots to registries and from registries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.bundle_registries import Progress, Pushed
from holdfast.runtime.transfer import receive, send
from holdfast.snapshots import raw
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.resuming import Resuming
from holdfast.snapshots.bundle.sealing import Sealing
from holdfast.snapshots.registry.http_client import Wire
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.registry_endpoint import RegistryDestination, RegistryOrigin

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


PLAIN_HTTP = "HOLDFAST_PLAIN_HTTP"
"""Names registries that are used without TLS, as `host:port,host:port`; for verbs without an option."""


DOWNLOADS = "HOLDFAST_DOWNLOADS"
"""Names how many bytes of memory that was pulled are kept for later pulls, as `512m` or `8g`."""
LIMIT = 1 << 30


def push(
    context: Context,
    snapshot: SnapshotRow,
    reference: str,
    key: tuple[str | None, str | None],
    *,
    sealed_for: tuple[tuple[str, ...], str | None] = ((), None),
    compression: str,
    secrets: str | None = None,
    plain_http: bool,
    progress: Progress,
) -> Pushed:
    """Send a snapshot to a registry; `key` is a name and a passphrase.

    Raises as `sending.send`, InvalidArgument, and RegistryError.
    """
    encrypt = Sealing.new(*sealed_for) if any(sealed_for) else None
    wire = way(reference, plain_http=plain_http)
    sign, new_key = Keys(context.home).sending(*key)
    with RegistryDestination(wire, context.home.root / "uploads") as destination:
        sent = send.send(
            context,
            snapshot,
            destination,
            sign=sign,
            encrypt=encrypt,
            compression=compression,
            secrets=secrets,
            progress=progress,
        )
    where = str(destination.reference)
    return Pushed(
        where,
        sent.digest,
        sent.bytes,
        sent.sent,
        sign.public,
        sent.warnings,
        sent.findings,
        sent.scrubbed,
        new_key,
    )


def pull(
    context: Context,
    reference: str,
    label: str | None,
    *,
    files_only: bool,
    plain_http: bool,
    passphrases: tuple[str | None, str | None] = (None, None),
    options: Mapping[str, Any],
    progress: Progress,
) -> SnapshotRow:
    """Take a snapshot in from a registry. Raises as `receiving.receive`, and InvalidArgument."""
    wire = way(reference, plain_http=plain_http)
    with Resuming(RegistryOrigin(wire), context.home.root / "downloads") as origin:
        row = receive.receive(
            context,
            origin,
            label=label,
            files_only=files_only,
            opener=Keys(context.home).opener(*passphrases),
            options=options,
            progress=progress,
        )
        origin.discard(keep=raw.size_of(DOWNLOADS, LIMIT))
    return row


def way(text: str, *, plain_http: bool) -> Wire:
    """The way to the registry of a reference. Raises InvalidArgument."""
    reference = Reference.parse(text)
    listed = {host.strip() for host in os.environ.get(PLAIN_HTTP, "").split(",")}
    return Wire(reference, plain_http=plain_http or reference.host in listed)
