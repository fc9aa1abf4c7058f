"""Push and pull, export and import: snapshots to and from registries, files and pipes. Chooses the end, and
describes the result.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, TypeVar

from holdfast.errors import HoldfastError, SessionExists
from holdfast.runtime.scrubbing import rules_file
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.runtime.sessions import session_identity
from holdfast.runtime.transfer import bundle_description
from holdfast.runtime.transfer.receive import receive
from holdfast.runtime.transfer.send import Sent, own_layers, send
from holdfast.snapshots import raw_cache
from holdfast.snapshots.bundle import form, shared_blobs
from holdfast.snapshots.bundle.endpoints import BlobDescriptor, BundleDestination
from holdfast.snapshots.bundle.oci_layout import PipeDestination, PipeOrigin
from holdfast.snapshots.bundle.resuming import Resuming
from holdfast.snapshots.registry.http_client import HttpClient
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.registry_endpoint import RegistryDestination, RegistryOrigin

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow
    from holdfast.runtime.transfer.bundle_series import BundleSeries
    from holdfast.runtime.transfer.transfer_options import ReceiveOptions, SendOptions


PLAIN_HTTP = "HOLDFAST_PLAIN_HTTP"
"""Names the registries that are used without TLS, as `host:port,host:port`; for verbs without an option."""


DOWNLOADS = "HOLDFAST_DOWNLOADS"
"""Sets how many bytes of pulled memory are kept for later pulls, as `512m` or `8g`."""
LIMIT = 1 << 30
AtEnd = TypeVar("AtEnd", bound=Sent)


@dataclass(frozen=True, slots=True)
class Exported(Sent):
    """A snapshot in a file; `sent` are the bytes written for it, without parts that it shares with others."""

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.where)


@dataclass(frozen=True, slots=True)
class Pushed(Sent):
    """A snapshot in a registry."""

    @property
    def reference(self) -> str:
        """The reference."""
        return self.where

    @property
    def pinned(self) -> str:
        """The reference with the digest: this very snapshot, even after the tag has moved."""
        return f"{self.reference}@{self.digest}"


def export(
    context: Context,
    snapshot: SnapshotRow,
    path: Path | int,
    options: SendOptions,
    *,
    shared: bool = False,
    thin: bool = False,
) -> Exported:
    """Write a snapshot to a file, or to a descriptor; raises as `send` does.

    With `shared` the file only leads to its parts, which others in its folder also use. With `thin` it lacks
    the layers of Holdfast's session image.
    """
    rules = rules_file.read(context.home)
    scrubs = rules_file.action(options.secrets, rules) != "ignore"
    name = Scrubber(rules.matcher()).text(snapshot.name) if scrubs else snapshot.name
    if isinstance(path, int):
        destination: BundleDestination = PipeDestination(path, name)
    else:
        destination = shared_blobs.destination(path, path.stem if shared else name, shared=shared)
    if thin:
        destination = ThinDestination(destination, own_layers(context.engine))
    with destination:
        sent = send(context, snapshot, destination, options)
    if not shared and not isinstance(path, int):
        size = path.stat().st_size
        sent = replace(sent, bytes=size, sent=size)
    return _at(Exported, sent)


def push(
    context: Context,
    snapshot: SnapshotRow,
    wire: HttpClient,
    options: SendOptions,
    series: BundleSeries | None = None,
) -> Pushed:
    """Send a snapshot to a registry.

    Raises:
        SessionExists: its session is here, and the tag has the same one as another machine has continued it.
        HoldfastError: as `send` does; InvalidArgument and RegistryError.
    """
    with RegistryDestination(wire, context.home.root / "uploads") as destination:
        _check_tag(context, snapshot, wire)
        sent = send(context, snapshot, destination, options, series)
    return _at(Pushed, replace(sent, where=str(destination.reference)))


def _at(kind: type[AtEnd], sent: Sent) -> AtEnd:
    return kind(**{each.name: getattr(sent, each.name) for each in fields(sent)})


def _check_tag(context: Context, snapshot: SnapshotRow, wire: HttpClient) -> None:
    row = context.store.find_session(snapshot.session_id)
    if row is None or wire.reference.digest:
        return
    try:
        # Its end would close the wire, which the push needs.
        there = form.parse(form.BundleIndex, RegistryOrigin(wire).index(), "its index").annotations
    except HoldfastError:  # nothing is there, or something else; or the push will say why
        return
    chain = session_identity.tenures(context.store, row)
    if not bundle_description.identity_passes(there, row.id, chain):
        raise SessionExists(
            f"cannot push to {wire.reference}: another machine has continued session {row.name} ({row.id}) "
            "and pushed it there, so two machines have it",
            hint="push to another tag; or remove one of the two sessions",
        )


def import_(context: Context, path: Path | int, options: ReceiveOptions) -> SnapshotRow:
    """Import a snapshot from a file, or from a descriptor; raises as `receive` does."""
    staging = context.home.staging
    with PipeOrigin(path, staging) if isinstance(path, int) else shared_blobs.origin(path) as origin:
        return receive(context, origin, options)


def pull(context: Context, wire: HttpClient, options: ReceiveOptions) -> SnapshotRow:
    """Import a snapshot from a registry; raises as `receive` does."""
    with Resuming(RegistryOrigin(wire), context.home.root / "downloads") as origin:
        row = receive(context, origin, options)
        origin.keep_segments(raw_cache.size_of(DOWNLOADS, LIMIT))
    return row


def registry_wire(text: str, *, plain_http: bool) -> HttpClient:
    """Return the way to the registry of a reference.

    Raises:
        InvalidArgument: the reference is not valid.
    """
    reference = Reference.parse(text)
    listed = {host.strip() for host in os.environ.get(PLAIN_HTTP, "").split(",")}
    return HttpClient(reference, plain_http=plain_http or reference.host in listed)


class ThinDestination:
    """A second destination, without the lowest layers that it shares with the `known` image.

    That destination is entered and left with this one.
    """

    def __init__(self, destination: BundleDestination, known: Sequence[str]) -> None:
        self._destination = destination
        self._known = known

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return how many of the lowest layers belong to the known image."""
        pairs = zip(diff_ids, self._known, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def has(self, blob: BlobDescriptor) -> bool:
        """Ask the other destination."""
        return self._destination.has(blob)

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Pass a part on."""
        self._destination.put(blob, data)

    def finish(self, index: bytes) -> str:
        """Pass the end on."""
        return self._destination.finish(index)

    def __enter__(self) -> Self:
        self._destination.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._destination.__exit__(kind, error, where)
