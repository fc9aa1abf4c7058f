"""Takes a snapshot from elsewhere into this home, all of it or nothing.

    index, signature, trust → manifests, config → room → files of live state → judged → layers → image → row

Nothing reaches the engine or CRIU before all that it consists of has matched its digest, and the process
images have been judged. Only what `admitting` lets through of the description is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import BundleRefused, StoreError
from holdfast.runtime import ids, storing
from holdfast.runtime.journal import happenings
from holdfast.runtime.moving import admitting, arriving, judging, past, trust
from holdfast.runtime.moving.arriving import Segments
from holdfast.runtime.taking import image_ref
from holdfast.snapshots import files, manifest, raw, storage
from holdfast.snapshots.bundle import form, loading, signing, tarball
from holdfast.snapshots.bundle.ends import Descriptor, Origin
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.manifest import Manifest

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.store.rows import OperationRow, SnapshotRow

Progress = Callable[[int, int], None]


def receive(
    controller: Holdfast,
    origin: Origin,
    *,
    label: str | None = None,
    files_only: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Progress = lambda _done, _all: None,
) -> SnapshotRow:
    """Import a snapshot; `origin` has been entered.

    Args:
        controller: whose home it comes into.
        origin: where it is.
        label: a name for it here; by default its own, if that is free.
        files_only: leave memory and processes, and need no trust.
        options: of sessions to be made of it, as in `SessionOptions`; those of the bundle do not count.
        progress: is told how far it is.

    Raises:
        BundleUntrusted, BundleRefused: it may not come in, or is not what it says.
        EngineError, StoreError, RegistryError: it cannot be had, or not be kept.
    """
    opened = _Opened(origin)
    name = Keys(controller.home).trusted(opened.key) if opened.key is not None else None
    trust.check(origin.name, opened.key, name, files_only=files_only)
    found = _here(controller, opened)
    if found is not None and (found.kind == "live" or files_only) and not options:
        return found
    with controller.operation("import", snapshot_id=ids.new_id()) as operation:
        receiving = _Receiving(controller, opened, operation, options or {}, progress)
        row = receiving.receive(label, files_only=files_only)
    return storing.settle(controller, row)


class _Opened:
    """The documents of a bundle, compared with their digests."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.raw = origin.index()
        found = form.parse(form.Index, self.raw, "its index")
        self.both = form.both(found)
        self.key = signing.signed_by(found.annotations, *self.both)
        self.digest = form.described("", self.raw).digest

    def image(self) -> tuple[form.ImageManifest, form.ImageConfig]:
        """The image's manifest and config."""
        data = arriving.document(self.origin, self.both[0], form.MAX_MANIFEST)
        found = form.parse(form.ImageManifest, data, "the manifest of its image")
        data = arriving.document(self.origin, found.config.descriptor(), form.MAX_MANIFEST)
        config = form.parse(form.ImageConfig, data, "the config of its image")
        if len(found.layers) != len(config.rootfs.diff_ids):
            raise BundleRefused("cannot import: its image has not as many layers as it says")
        return found, config

    def snapshot(self) -> tuple[form.Config, list[Descriptor]]:
        """The snapshot's config, and its segments."""
        data = arriving.document(self.origin, self.both[1], form.MAX_MANIFEST)
        found = form.parse(form.ImageManifest, data, "the manifest of its snapshot")
        if found.subject is None or found.subject.digest != self.both[0].digest:
            raise BundleRefused("cannot import: its processes are those of another image")
        data = arriving.document(self.origin, found.config.descriptor(), form.MAX_CONFIG)
        config = form.parse(form.Config, data, "the config of its snapshot")
        return config, [layer.descriptor() for layer in found.layers]


def _here(controller: Holdfast, opened: _Opened) -> SnapshotRow | None:
    """The same, if it was imported before and is whole."""
    for row in controller.store.snapshots():
        known = row.details.get("origin")
        if row.state == "ready" and isinstance(known, dict) and known.get("digest") == opened.digest:
            return row
    return None


class _Receiving:
    def __init__(
        self,
        controller: Holdfast,
        opened: _Opened,
        operation: OperationRow,
        options: Mapping[str, Any],
        progress: Progress,
    ) -> None:
        assert operation.snapshot_id is not None
        self._controller = controller
        self._opened = opened
        self._operation = operation.id
        self._id = operation.snapshot_id
        self._options = options
        self._progress = progress
        self._staging = controller.home.staging / operation.id
        self._done = 0
        self._all = 1

    def receive(self, label: str | None, *, files_only: bool) -> SnapshotRow:
        controller, store = self._controller, self._controller.store
        image, image_config = self._opened.image()
        config, segments = self._opened.snapshot()
        foreign = config.snapshot
        admitting.check(foreign)
        if config.base > len(image.layers):
            raise BundleRefused("cannot import: its image has fewer layers than its base")
        live = foreign.kind == "live" and not files_only
        chosen = admitting.options(foreign.options, self._options)
        diff_ids = image_config.rootfs.diff_ids
        there = loading.there(controller.engine, diff_ids)
        missing = list(zip(diff_ids, image.layers, strict=True))[there:]
        sizes = [arriving.raw_size(layer.descriptor()) for _, layer in missing]
        state = sum(segment.bytes for segment in config.segments) if live else 0
        self._all = max(1, state + sum(sizes))
        self._staging.mkdir(mode=0o700)
        whole = sum(entry.bytes for entry in foreign.files) if live else 0
        # Layers are there twice for a moment: as archives, and as the engine unpacks them.
        arriving.check_room(self._staging, whole + 2 * sum(sizes))

        arriving.check_names(config, past.FILE)
        parts = Segments(self._opened.origin, segments, config.segments, self._told)
        journal = next((file for file in config.files if file.name == past.FILE), None)
        told = (
            past.read(parts.text(journal, past.MAX_BYTES)) if journal is not None and not files_only else []
        )
        if live:
            self._live_files(config, parts)
        row = self._row(config, label, files_only=files_only)
        archives = self._layers([(diff_id, layer.descriptor()) for diff_id, layer in missing])
        made = loading.load(
            controller.engine,
            (image_config.os, image_config.architecture),
            diff_ids,
            archives,
            image_ref(self._id),
            {
                "holdfast.home": controller.home.digest,
                "holdfast.role": "snapshot",
                "holdfast.snapshot": self._id,
                "holdfast.operation": self._operation,
            },
            config.base,
        )
        for path in archives.values():
            path.unlink()
        kept = foreign.model_copy(
            update={
                "id": self._id,
                "label": row.label,
                "kind": row.kind,
                "parent": None,
                "image": made,
                "options": chosen,
                "processes": foreign.processes if live else None,
                "files": foreign.files if live else [],
            }
        )
        store.entries.take(row.session_id, told)
        return self._finish(row, kept, sum(sizes))

    def _live_files(self, config: form.Config, parts: Segments) -> None:
        """Put the files together, compare them, and have the processes in them judged."""
        (self._staging / raw.IMAGES).mkdir(mode=0o700)
        for file in config.files:
            if file.name != past.FILE:
                parts.write(file, self._staging / file.name)
        for entry in config.snapshot.files:
            why = files.fault(self._staging / entry.name, entry)
            if why is not None:
                raise BundleRefused(f"cannot import: {entry.name} {why}", hint="it is forged or damaged")
        admitting.facts((self._staging / raw.IMAGES / "facts.json").read_bytes())
        for path in sorted((self._staging / raw.IMAGES).glob("tmpfs-*.tar")):
            tarball.check_memory(path)
        judging.judge(self._controller, self._staging, config.snapshot)

    def _layers(self, missing: list[tuple[str, Descriptor]]) -> dict[str, Path]:
        """Write the archives of layers, each compared and looked through before the engine gets any."""
        found: dict[str, Path] = {}
        for number, (diff_id, blob) in enumerate(missing):
            path = self._staging / f"layer-{number}.tar"
            arriving.layer(self._opened.origin, blob, diff_id, path, self._told)
            tarball.check_layer(path)
            found[diff_id] = path
        return found

    def _row(self, config: form.Config, label: str | None, *, files_only: bool) -> SnapshotRow:
        """The pending row, of a session that is not here and counts as removed."""
        store, foreign = self._controller.store, config.snapshot
        session = store.add_session(
            foreign.session_name, "", {}, generation=foreign.generation, state="removed"
        )
        labels = {row.label for row in store.snapshots(pending=True)}
        given = {**config.details, "failure": foreign.failure} if foreign.failure else config.details
        details = {
            "generation": foreign.generation,
            "actor": self._controller.actor,
            "origin": admitting.origin(self._opened.origin.name, self._opened.raw, self._opened.key, foreign),
            **admitting.details(given),
        }
        return store.add_snapshot(
            session.id,
            "filesystem" if files_only else foreign.kind,
            label=label or (foreign.label if foreign.label not in labels else None),
            snapshot_id=self._id,
            details=details,
            reason=self._controller.reason,
        )

    def _finish(self, row: SnapshotRow, kept: Manifest, grown: int) -> SnapshotRow:
        controller, home = self._controller, self._controller.home
        try:
            manifest.write(self._staging, kept)
            stored = storage.keep(home, self._staging, self._id, kept.files, pack=True)
            self._staging.rename(home.snapshots / self._id)
        except OSError as error:
            raise StoreError(
                f"cannot import: {self._staging} cannot be written ({error.strerror or error})"
            ) from error
        ready = {
            "state": "ready",
            "image_id": kept.image,
            "bytes": grown + stored.files + stored.own,
            "details": {**row.details, **storing.details(stored, grown)},
        }
        controller.store.complete(self._operation, snapshots={self._id: ready})
        self._progress(self._all, self._all)
        done = controller.store.snapshot(self._id)
        happenings.note(controller, done.session_id, "imported", snapshot=done.id, label=done.label)
        return done

    def _told(self, count: int) -> None:
        self._done = min(self._all, self._done + count)
        self._progress(self._done, self._all)
