"""Sends a snapshot: its files as an ordinary image, the rest as additional segments.

The same code serves files and registries; data that the other side has is not sent. The snapshot is locked
during this, and every file is compared with its digest before it is sent.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from blake3 import blake3

from holdfast.errors import SnapshotDamaged, StoreError
from holdfast.images import build
from holdfast.runtime.lifecycle.take_back import take_back
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.scrubbing.secret_search import SecretFinding
from holdfast.runtime.sessions import session_identity
from holdfast.runtime.storage import snapshot_image, snapshot_lock, verify_storage
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.transfer import bundle_description, journal_export
from holdfast.runtime.transfer import bundle_description as carried
from holdfast.runtime.transfer.bundle_series import SMALL, BundleSeries
from holdfast.runtime.transfer.inspection import Inspection, SearchedFiles
from holdfast.runtime.transfer.outgoing_parts import OutgoingLayers, OutgoingSegments, Remembered
from holdfast.runtime.transfer.transfer_options import SendOptions
from holdfast.snapshots import manifest as manifests
from holdfast.snapshots import raw, raw_cache, record
from holdfast.snapshots.bundle import form, image_layers, media, signing
from holdfast.snapshots.bundle.endpoints import BlobDescriptor, BundleDestination
from holdfast.snapshots.bundle.image_source import MadeImage, UnmadeLayers
from holdfast.snapshots.bundle.signing import Signer
from holdfast.snapshots.bundle.squashed_layers import LeavingImage
from holdfast.snapshots.layer import unmade_image
from holdfast.snapshots.manifest import StoredFile

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.scrubbing.scrubber import Scrubber
    from holdfast.runtime.store.rows import SnapshotRow
    from holdfast.snapshots.bundle.earlier_pages import PageRange
    from holdfast.snapshots.bundle.image_layers import ImageFacts
    from holdfast.snapshots.bundle.image_source import ImageSource
    from holdfast.snapshots.manifest import Manifest

undoes(OperationKind.EXPORT)(take_back)


@dataclass(frozen=True, slots=True)
class Sent:
    """A snapshot that was sent: its destination, the digest of the bundle, and the key that signed it.

    `bytes` is its size there in total, `sent` its new part there. `warnings` list in words the contents
    that others should perhaps not have; `findings` say which secrets were found where, `scrubbed` how many
    of each rule were removed from texts. `new_key`: the home did not have a key, and this one was made for
    it.
    """

    where: str
    digest: str
    bytes: int
    sent: int
    signed_by: str = ""
    warnings: tuple[str, ...] = ()
    findings: tuple[SecretFinding, ...] = ()
    scrubbed: Mapping[str, int] = field(default_factory=dict)
    new_key: bool = False


def send(
    context: Context,
    snapshot: SnapshotRow,
    destination: BundleDestination,
    options: SendOptions | None = None,
    series: BundleSeries | None = None,
) -> Sent:
    """Send a snapshot to a destination, which the caller has entered and leaves.

    With a `series`, content of its earlier bundle is neither searched nor sent again. Such a snapshot was
    just written and is not compared with its digests here, but where it is received.

    Raises:
        SecretsFound: it has some, and must not; nothing of it was sent.
        SnapshotDamaged, SnapshotNotFound: the snapshot cannot be used.
        EngineError, StoreError: it cannot be read, or not be written there.
    """
    options = options or SendOptions()
    if options.encrypt is not None:
        series = None  # each has a key of its own
    before = series.earlier if series is not None else None
    verify_storage.refuse(snapshot)
    home, folder = context.home, context.home.snapshots / snapshot.id
    with (
        snapshot_lock.used(context, snapshot),
        raw_cache.held(folder),
        carry_out(context, OperationKind.EXPORT) as operation,
    ):
        manifest = manifests.read(folder)
        inspection = Inspection(home, manifest, options.secrets, os.environ, own_layers(context.engine))
        raw.prepare(home.root, folder, manifest, compare=before is None)
        scratch = home.staging / operation.id
        scratch.mkdir(mode=0o700)
        try:
            known_processes = record.read(folder)
            changes = series.changes(folder, manifest) if series is not None else {}
            inspection.files(folder, known_processes, before.searched if before else None, changes)
            source = _source(context, snapshot, scratch, is_first=before is None)
            there = series.layers if series is not None else ()
            image = LeavingImage(source, scratch, home.root / "cache" / "squashed.json", there)
            stored = inspection.rewritten(folder)
            if inspection.refuses:
                inspection.layers(image)
                inspection.refuse(snapshot.name)
            sending = _Sending(
                context,
                manifest,
                image.facts,
                snapshot,
                destination,
                options,
                inspection.scrubber,
                stored,
                series or BundleSeries(),
            )
            known = Remembered(home.root / "cache" / "layers.json")
            seal = options.encrypt[0] if options.encrypt is not None else None
            searched = inspection.passing
            found = sending.image(OutgoingLayers(image, options.compression, scratch, known, seal, searched))
            if not inspection.refuses:
                inspection.layers(image)
            rest = sending.rest(folder, changes)
            if series is not None and before is None:
                series.layers = image.unmerged
                sending.remember(folder, inspection.searched)
            shells = journal_export.variables(journal_export.before(context, snapshot))
            warnings = carried.secrets_warnings(
                manifest, known_processes, source.folders(), shells, source.copied_names()
            )
            return replace(
                sending.finish(found, rest, options.sign),
                warnings=(*warnings, *inspection.warnings()),
                findings=inspection.found,
                scrubbed=dict(inspection.scrubber.counts),
                new_key=options.new_key,
            )
        finally:
            shutil.rmtree(scratch)


def _source(context: Context, snapshot: SnapshotRow, scratch: Path, *, is_first: bool) -> ImageSource:
    """Return the image to send.

    The first of a series is made in the engine. A later one is sent while the session is frozen, and its
    layers are in the folder of the snapshot.
    """
    unmade = None
    if not is_first:
        try:
            unmade = unmade_image.share(context.home.snapshots / snapshot.id, scratch, whole=False)
        except OSError as error:
            raise StoreError(f"cannot write to {scratch}: {error.strerror or error}") from error
    if unmade is not None:
        return UnmadeLayers(context.engine, scratch, unmade)
    return MadeImage(context.engine, snapshot_image.obtain(context, snapshot))


def own_layers(engine: Engine) -> tuple[str, ...]:
    """Return the layers of Holdfast's own image: they hold packages, but no session's files."""
    ours = build.reference("session")
    return image_layers.look(engine, ours).layers if engine.images.id(ours) is not None else ()


class _Sending:
    def __init__(
        self,
        context: Context,
        manifest: Manifest,
        image: ImageFacts,
        snapshot: SnapshotRow,
        destination: BundleDestination,
        options: SendOptions,
        scrubber: Scrubber,
        rewritten: Mapping[str, bytes],
        series: BundleSeries,
    ) -> None:
        self._encrypt = options.encrypt
        self._series = series
        self._scrubber = scrubber
        self._rewritten = rewritten
        self._context = context
        self._manifest = manifest
        self._snapshot = snapshot
        self._destination = _Counting(destination)
        self._image = image
        self._tenures = session_identity.travelling(context.store, snapshot)
        self._done = 0
        self._all = context.engine.images.size(manifest.image) + sum(entry.bytes for entry in manifest.files)
        self._progress = options.progress
        self._segments = OutgoingSegments(self._put, self._destination.has, self._report, self._series)
        self._large: list[form.FileInParts] = []

    def image(self, layers: OutgoingLayers) -> BlobDescriptor:
        """Send the image; return its manifest."""
        sent = layers.send(self._destination, self._report)
        config = self._put(
            media.IMAGE_CONFIG, bundle_description.image_config(self._manifest, self._image, self._scrubber)
        )
        return self._put(media.MANIFEST, form.image_manifest(config, sent))

    def rest(
        self, folder: Path, changes: Mapping[str, Sequence[PageRange]]
    ) -> tuple[BlobDescriptor, list[BlobDescriptor]]:
        """Send everything else; return the config that describes it, and its segments.

        Of the files in `changes` only new parts are sent.
        """
        segments = self._segments
        files = list(self._files(folder, changes))
        text = bundle_description.bundle_config(
            self._manifest,
            self._image,
            segments.segments,
            files,
            self._snapshot.details.plus(tenures=self._tenures.kept() or None),
            self._scrubber,
            self._stored(),
        )
        return self._put(media.SNAPSHOT_CONFIG, text), segments.blobs

    def remember(self, folder: Path, searched: SearchedFiles) -> None:
        """Record the data that the next bundle of a series does not have to send."""
        self._series.sent(folder, self._large, self._segments.segments, self._segments.blobs, searched)

    def finish(
        self, image: BlobDescriptor, rest: tuple[BlobDescriptor, list[BlobDescriptor]], sign: Signer | None
    ) -> Sent:
        """Send the documents that name the rest."""
        snapshot = self._put(media.MANIFEST, form.snapshot_manifest(*rest, image))
        sealed = self._encrypt[1].model_dump_json() if self._encrypt is not None else ""
        annotations = {media.SEALED: sealed} if sealed else {}
        annotations |= bundle_description.identity_annotations(self._manifest.session, self._tenures)
        if sign is not None:
            annotations |= signing.signed(sign, image, snapshot, sealed)
        index = form.index(image, snapshot, (self._image.system, self._image.architecture), annotations)
        for blob in self._segments.blobs:
            self._destination.count(blob)  # those of the earlier bundle too
        where = self._destination.finish(index)
        self._progress(self._all, self._all)
        return Sent(
            where,
            form.described(media.INDEX, index).digest,
            self._destination.all + len(index),
            self._destination.sent + len(index),
            sign.public if sign is not None else "",
        )

    def _stored(self) -> list[StoredFile]:
        """Yield the files in their sent form."""
        return [
            StoredFile(name=entry.name, bytes=len(data), blake3=blake3(data).hexdigest())
            if (data := self._rewritten.get(entry.name)) is not None
            else entry
            for entry in self._manifest.files
        ]

    def _files(self, folder: Path, changes: Mapping[str, Sequence[PageRange]]) -> Iterator[form.FileInParts]:
        journal = journal_export.collect(self._context, self._snapshot, self._scrubber.value)
        small: list[tuple[str, bytes]] = [(journal_export.FILE, journal), *self._rewritten.items()]
        earlier = self._series.earlier
        for entry in self._manifest.files:
            if entry.name in self._rewritten:
                continue
            if entry.bytes < SMALL:
                small.append((entry.name, (folder / entry.name).read_bytes()))
                continue
            path, ranges = folder / entry.name, changes.get(entry.name)
            if earlier is None or ranges is None:
                file = self._segments.file(path, entry.name)
            else:
                file = self._segments.changed(path, entry.name, ranges, earlier)
            if sum(part.bytes for part in file.parts) != entry.bytes:
                raise SnapshotDamaged(
                    f"cannot send {self._snapshot.name}: {entry.name} changed in the meantime"
                )
            self._large.append(file)
            yield file
        yield from self._segments.together(small)

    def _put(self, media_type: str, data: bytes) -> BlobDescriptor:
        if self._encrypt is not None and not media.is_manifest(media_type):
            media_type += media.ENCRYPTED
            data = b"".join(self._encrypt[0].seal([data]))
        found = form.described(media_type, data)
        if not self._destination.has(found):
            self._destination.put(found, io.BytesIO(data))
        return found

    def _report(self, count: int) -> None:
        self._done = min(self._all, self._done + count)
        self._progress(self._done, self._all)


class _Counting:
    """A destination that counts this bundle's bytes there, and the new ones among them."""

    def __init__(self, end: BundleDestination) -> None:
        self._end = end
        self._seen: set[str] = set()
        self.all = 0
        self.sent = 0

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Ask the destination."""
        return self._end.layers_there(diff_ids)

    def has(self, blob: BlobDescriptor) -> bool:
        """Ask the destination; a part that was sent is known."""
        found = blob.digest in self._seen or self._end.has(blob)
        if found:
            self.count(blob)
        return found

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Pass a part on."""
        self._end.put(blob, data)
        self.count(blob)
        self.sent += blob.size

    def finish(self, index: bytes) -> str:
        """Pass the end on."""
        return self._end.finish(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the caller leaves the destination."""

    def count(self, blob: BlobDescriptor) -> None:
        """Count an existing part, once."""
        if blob.digest not in self._seen:
            self._seen.add(blob.digest)
            self.all += blob.size
