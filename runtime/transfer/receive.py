"""Imports a snapshot into this home, completely or not at all.

    index, signature, trust → manifests, config → room → files of live state → judged → layers → image → row

Nothing reaches the engine or CRIU before all parts of it have matched their digests, and the process images
have been judged. Only what `foreign_snapshot` lets through of the description is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.engine.image_store import ImageStore
from holdfast.errors import BundleRefused, InvalidArgument, StoreError
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle.take_back import take_back_import
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.retention import prune
from holdfast.runtime.sessions import option_table, session_identity
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.storage.snapshot_storage import image_ref
from holdfast.runtime.store.entry import CheckedLine
from holdfast.runtime.store.rows import OperationKind
from holdfast.runtime.transfer import (
    bundle_description,
    foreign_snapshot,
    journal_export,
    transfer_options,
    unpack_parts,
)
from holdfast.runtime.transfer.transfer_options import ReceiveOptions
from holdfast.runtime.transfer.unpack_parts import BundleSegments, BundleSource
from holdfast.snapshots import files, manifest, raw_cache, storage
from holdfast.snapshots.bundle import foreign_files, form, loading, media, sealing, signing
from holdfast.snapshots.bundle.endpoints import BlobDescriptor, BundleOrigin
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.oci_layout import FileOrigin
from holdfast.snapshots.bundle.resuming import Resuming
from holdfast.snapshots.bundle.sealing import Opener, Sealing
from holdfast.snapshots.checkpointer.layers import apart

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, SnapshotRow

undoes(OperationKind.IMPORT)(take_back_import)

_LOAD = ", or load that machine's session image here first (docker save, docker load)"


def receive(context: Context, origin: BundleOrigin, options: ReceiveOptions | None = None) -> SnapshotRow:
    """Import a snapshot; `origin` has been entered.

    Raises:
        BundleUntrusted, BundleRefused: it is not permitted, or does not match its description.
        InvalidArgument: the label is taken or not valid, or an option is not valid.
        EngineError, StoreError, RegistryError: it cannot be read, or not be stored.
        QuotaExceeded: there is not enough room for it.
    """
    options = options or ReceiveOptions()
    if options.label is not None:
        _check_label(context, options.label)
    opened = _Opened(origin)
    name = Keys(context.home).trusted(opened.key) if opened.key is not None else None
    vouched = options.vouched is not None and options.vouched == opened.digest
    if not vouched:
        transfer_options.refuse_untrusted(origin.name, opened.key, name, files_only=options.files_only)
    opened.unseal(options.opener or Keys(context.home).opener())
    found = _here(context, opened)
    if found is not None and (found.kind == "live" or options.files_only) and not options.options:
        return found
    wanted = _Wanted(opened, files_only=options.files_only, options=options.options, vouched=vouched)
    foreign = wanted.foreign
    chain = Tenures.parse(wanted.config.details.get("tenures"))
    session_identity.look_for_twin(
        context, foreign.session, chain, foreign.created_at.timestamp(), plain(origin.name, 200)
    )
    with carry_out(context, OperationKind.IMPORT, snapshot_id=ids.new_id()) as operation:
        receiving = _Receiving(context, wanted, operation, options)
        row = receiving.receive(options.label)
    if wanted.live and options.series is not None:
        folder = context.home.snapshots / row.id
        options.series.imported(folder, wanted.config, wanted.segments, image_ref(row.id))
    if options.settle:
        snapshot_storage.leave_to_worker(context)
    session = context.store.find_session(row.session_id, removed=True)
    if session is not None:
        prune.make_room(context, session, row)
    return row


def described(context: Context, origin: BundleOrigin) -> manifest.Manifest:
    """Return a bundle's description of its snapshot; `origin` has been entered. Nothing is imported, or
    trusted.

    Raises:
        BundleRefused: it is not valid, or cannot be decrypted with a key of this home.
        StoreError, RegistryError: it cannot be read.
    """
    opened = _Opened(origin)
    opened.unseal(Keys(context.home).opener())
    return opened.snapshot()[0].snapshot


def _check_label(context: Context, label: str) -> None:
    """Check the label before anything is fetched."""
    ids.check_name(label, "snapshot")
    if any(row.label == label for row in context.store.snapshots(pending=True)):
        raise InvalidArgument(
            f"cannot label snapshot '{label}': the label is taken",
            hint=f"choose a different label, or `holdfast rmi {label}`",
        )


class _Opened:
    """The documents of a bundle, compared with their digests."""

    def __init__(self, origin: BundleOrigin) -> None:
        self.origin = origin
        self.raw = origin.index()
        found = form.parse(form.BundleIndex, self.raw, "its index")
        self.both = form.both(found)
        self._seal = found.annotations.get(media.SEALED)
        self.source = BundleSource(origin)
        self.key = signing.signed_by(found.annotations, *self.both)
        self.digest = form.described("", self.raw).digest

    def unseal(self, opener: Opener) -> None:
        """Obtain the key of the bundle, if it is encrypted.

        Raises:
            BundleRefused: no key of this home opens it.
        """
        if self._seal is not None:
            self.source = BundleSource(self.origin, Sealing.opened(sealing.parse(self._seal), opener))

    def image(self) -> tuple[form.ImageManifest, form.ImageConfig]:
        """Return the image's manifest and config."""
        data = self.source.document(self.both[0], form.MAX_MANIFEST)
        found = form.parse(form.ImageManifest, data, "the manifest of its image")
        data = self.source.document(found.config.descriptor(), form.MAX_MANIFEST)
        config = form.parse(form.ImageConfig, data, "the config of its image")
        if len(found.layers) != len(config.rootfs.diff_ids):
            raise BundleRefused("cannot import: its image does not have the declared number of layers")
        return found, config

    def snapshot(self) -> tuple[form.BundleConfig, list[BlobDescriptor]]:
        """Return the snapshot's config, and its segments."""
        data = self.source.document(self.both[1], form.MAX_MANIFEST)
        found = form.parse(form.ImageManifest, data, "the manifest of its snapshot")
        if found.subject is None or found.subject.digest != self.both[0].digest:
            raise BundleRefused("cannot import: its processes belong to a different image")
        data = self.source.document(found.config.descriptor(), form.MAX_CONFIG)
        config = form.parse(form.BundleConfig, data, "the config of its snapshot")
        return config, [layer.descriptor() for layer in found.layers]


class _Wanted:
    """The description of a bundle, checked as far as possible without the rest of it."""

    def __init__(
        self, opened: _Opened, *, files_only: bool, options: Mapping[str, Any], vouched: bool = False
    ) -> None:
        self.opened = opened
        image, self.image = opened.image()
        self.config, self.segments = opened.snapshot()
        self.foreign = self.config.snapshot
        foreign_snapshot.check_manifest(self.foreign)
        if self.config.base > len(image.layers):
            raise BundleRefused("cannot import: its image has fewer layers than its base")
        unpack_parts.check_names(self.config, journal_export.FILE)
        self.written = foreign_snapshot.taken_positions(
            self.config.details.get(bundle_description.WRITTEN), self.config.base, len(image.layers)
        )
        self.live = self.foreign.kind == "live" and not files_only
        self.files_only = files_only
        # Without processes, of all files only those that belong to the image.
        self.files = [entry for entry in self.foreign.files if self.live or entry.name in apart.FILES]
        if vouched and not options:  # it comes from a node of this one's cluster
            along = foreign_snapshot.taken_details(self.config.details).about_options
            options = {key: along[key] for key in option_table.MOVING if key in along}
        self.options = foreign_snapshot.taken_options(self.foreign.options, options)
        self.layers = [
            (diff_id, layer.descriptor(), unpack_parts.raw_size(layer.descriptor()))
            for diff_id, layer in zip(self.image.rootfs.diff_ids, image.layers, strict=True)
        ]


def _here(context: Context, opened: _Opened) -> SnapshotRow | None:
    """Return the same snapshot if it was imported before and is intact."""
    for row in context.store.snapshots():
        known = row.details.origin
        if row.state == "ready" and known is not None and known.get("digest") == opened.digest:
            return row
    return None


class _Receiving:
    def __init__(
        self,
        context: Context,
        wanted: _Wanted,
        operation: OperationRow,
        options: ReceiveOptions,
    ) -> None:
        assert operation.snapshot_id is not None
        self._context = context
        self._wanted = wanted
        self._operation = operation.id
        self._id = operation.snapshot_id
        self._progress = options.progress
        self._earlier = options.series.earlier if options.series is not None else None
        self._likely = options.series.image if options.series is not None else ""
        self._staging = context.home.staging / operation.id
        self._done = 0
        self._all = 1

    def receive(self, label: str | None) -> SnapshotRow:
        context, wanted, config = self._context, self._wanted, self._wanted.config
        diff_ids = wanted.image.rootfs.diff_ids
        missing = wanted.layers[loading.there(context.engine, diff_ids, self._likely) :]
        self._refuse_left_out([blob for _, blob, _ in missing])
        grown = sum(size for _, _, size in missing)
        state = sum(segment.bytes for segment in config.segments) if wanted.files else 0
        self._all = max(1, state + grown)
        self._staging.mkdir(mode=0o700)
        whole = sum(entry.bytes for entry in wanted.files)
        # Layers exist twice for a while: as archives, and as the engine unpacks them.
        unpack_parts.check_room(self._staging, whole + 2 * grown)

        source = wanted.opened.source
        parts = BundleSegments(source, wanted.segments, config.segments, self._advance, whole, self._earlier)
        if isinstance(wanted.opened.origin, Resuming):
            segments = parts.missing() if wanted.files else []
            wanted.opened.origin.ahead([*segments, *(blob for _, blob, _ in missing)])
        entries = self._past(parts)
        with ExitStack() as held:
            written = held.enter_context(closing(self._files(config, parts))) if wanted.files else None
            return self._take_in(label, missing, entries, grown, written)

    def _take_in(
        self,
        label: str | None,
        missing: list[tuple[str, BlobDescriptor, int]],
        entries: list[CheckedLine],
        grown: int,
        written: files.Ahead | None,
    ) -> SnapshotRow:
        context, wanted = self._context, self._wanted
        row = self._row(label)
        archives = self._layers([(diff_id, blob) for diff_id, blob, _ in missing])
        made = loading.load(
            context.engine,
            (wanted.image.os, wanted.image.architecture),
            wanted.image.rootfs.diff_ids,
            archives,
            image_ref(self._id),
            {
                "holdfast.home": context.home.digest,
                "holdfast.role": "snapshot",
                "holdfast.snapshot": self._id,
                "holdfast.operation": self._operation,
            },
            wanted.config.base,
            wanted.written,
        )
        for path in archives.values():
            path.unlink()
        context.store.entries.take(row.session_id, entries)
        return self._finish(row, made, grown, written)

    def _refuse_left_out(self, missing: list[BlobDescriptor]) -> None:
        """Refuse a file without layers that this engine lacks, before anything of it is unpacked."""
        origin = self._wanted.opened.origin
        if not isinstance(origin, FileOrigin):
            return
        for blob in missing:
            try:
                origin.open(blob).close()
            except BundleRefused as error:
                raise BundleRefused(
                    f"cannot import {origin.name}: it was exported without layers, and this engine "
                    "lacks them",
                    hint=f"export it without --thin{_LOAD if self._adds_layers() else ''}",
                ) from error

    def _adds_layers(self) -> bool:
        """Return whether the engine accepts an image without the layers it has."""
        return self._context.engine.layers.store() is ImageStore.OVERLAY2

    def _past(self, parts: BundleSegments) -> list[CheckedLine]:
        """Store the journal; it describes what ran, so it is not accepted from untrusted signers."""
        found = next((file for file in self._wanted.config.files if file.name == journal_export.FILE), None)
        if found is None or self._wanted.files_only:
            return []
        return journal_export.read(parts.text(found, journal_export.MAX_BYTES))

    def _files(self, config: form.BundleConfig, parts: BundleSegments) -> files.Ahead:
        """Assemble the files, compare them, and have their contents judged.

        They are on their way to the disk during this, and still when this returns.
        """
        wanted = {entry.name for entry in self._wanted.files}
        if self._wanted.live:
            (self._staging / raw_cache.IMAGES).mkdir(mode=0o700)
        for file in config.files:
            if file.name in wanted:
                parts.write(file, self._staging / file.name)
        written = files.Ahead(self._staging, raw_cache.IMAGES, {})
        try:
            self._compare(self._wanted.files, written.digests())
            self._check_apart()
            if self._wanted.live:
                foreign_snapshot.check_facts((self._staging / raw_cache.IMAGES / "facts.json").read_bytes())
                for path in sorted((self._staging / raw_cache.IMAGES).glob("tmpfs-*.tar")):
                    foreign_files.check_memory(path)
                foreign_snapshot.judge_processes(self._context, self._staging, config.snapshot)
        except BaseException:
            written.close()
            raise
        return written

    def _check_apart(self) -> None:
        """Check the list of files that its image cannot hold."""
        try:
            apart.read(self._staging)
        except OSError as error:
            raise BundleRefused(f"cannot import: {error}", hint="it is forged or damaged") from error

    def _compare(self, described: Iterable[manifest.StoredFile], digests: Mapping[str, str]) -> None:
        """Compare every file with its description, whatever its source; `digests` are known ones."""
        for entry in described:
            path, known = self._staging / entry.name, digests.get(entry.name)
            why = files.fault(path, entry, compare=known is None)
            if why is None and known is not None and known != entry.blake3:
                why = "does not match its digest"
            if why is not None:
                raise BundleRefused(f"cannot import: {entry.name} {why}", hint="it is forged or damaged")

    def _layers(self, missing: list[tuple[str, BlobDescriptor]]) -> dict[str, Path]:
        """Write the archives of layers, each compared and checked before the engine gets any."""
        found: dict[str, Path] = {}
        for number, (diff_id, blob) in enumerate(missing):
            path = self._staging / f"layer-{number}.tar"
            unpack_parts.layer(self._wanted.opened.source, blob, diff_id, path, self._advance)
            foreign_files.check_layer(path)
            found[diff_id] = path
        return found

    def _row(self, label: str | None) -> SnapshotRow:
        """Return the pending row, of a session that does not exist here and counts as removed."""
        store, wanted, foreign = self._context.store, self._wanted, self._wanted.foreign
        session = store.add_session(
            foreign.session_name, "", {}, generation=foreign.generation, state="removed"
        )
        labels = {row.label for row in store.snapshots(pending=True)}
        given = wanted.config.details
        if foreign.failure:
            given = {**given, "failure": foreign.failure}
        opened = wanted.opened
        details = foreign_snapshot.taken_details(given).plus(
            generation=foreign.generation,
            actor=self._context.actor,
            origin=foreign_snapshot.origin_of(opened.origin.name, opened.raw, opened.key, foreign),
        )
        return store.add_snapshot(
            session.id,
            "live" if wanted.live else "filesystem",
            label=label or (foreign.label if foreign.label not in labels else None),
            snapshot_id=self._id,
            details=details,
            reason=self._context.reason,
        )

    def _finish(self, row: SnapshotRow, image: str, grown: int, written: files.Ahead | None) -> SnapshotRow:
        context, home, wanted = self._context, self._context.home, self._wanted
        kept = wanted.foreign.model_copy(
            update={
                "id": self._id,
                "label": row.label,
                "kind": row.kind,
                "parent": None,
                "image": image,
                "options": wanted.options,
                "processes": wanted.foreign.processes if wanted.live else None,
                "files": wanted.files,
            }
        )
        try:
            manifest.write(self._staging, kept)
            stored = storage.keep(self._staging, kept.files, written)
            storage.publish(context.engine, home, self._staging, self._id)
        except OSError as error:
            raise StoreError(
                f"cannot import: {self._staging} cannot be written ({error.strerror or error})"
            ) from error
        ready = {
            "state": "ready",
            "image_id": kept.image,
            "bytes": grown + stored.files + stored.raw,
            "details": row.details.plus(storage=snapshot_storage.details(stored, grown)),
        }
        context.store.operations.complete(self._operation, snapshots={self._id: ready})
        self._progress(self._all, self._all)
        done = context.store.snapshot(self._id)
        host_events.note(context, done.session_id, "imported", snapshot=done.id, label=done.label)
        return done

    def _advance(self, count: int) -> None:
        self._done = min(self._all, self._done + count)
        self._progress(self._done, self._all)
