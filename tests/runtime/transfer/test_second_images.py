"""The second image of a series, which is sent while a session is frozen: only its own layer travels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from tests.runtime.orchestration import context_of, left, running, snapshot
from tests.runtime.transfer.test_transfer_service import LayeredEngine, _digest, _layer

from holdfast.base.home import Home
from holdfast.runtime.operations.context import Context
from holdfast.runtime.store.rows import SessionRow, SnapshotRow
from holdfast.runtime.transfer.bundle_series import BundleSeries
from holdfast.runtime.transfer.receive import receive
from holdfast.runtime.transfer.send import send
from holdfast.runtime.transfer.transfer_options import ReceiveOptions, SendOptions
from holdfast.snapshots import manifest
from holdfast.snapshots.bundle import media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin
from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.layer import image, unmade_image
from holdfast.snapshots.layer.archive import LayerArchive
from holdfast.snapshots.layer.image import ParentImage
from holdfast.snapshots.layer.unmade_image import UnmadeImage
from holdfast.snapshots.manifest import Manifest

BASE, WRITTEN = _layer(b"below"), _layer(b"what the container wrote " * 4000)
LABELS = {image.BASE_LABEL: "1", image.WRITTEN_LABEL: "1"}
FIRST = "sha256:" + "1" * 64


class Receiver:
    """A destination that keeps all parts; its engine has the layers of what was finished."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.layers_now: list[int] = []
        self.described: dict[str, Any] = {}
        self.layers: list[str] = []

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        return sum(1 for ours, theirs in zip(diff_ids, self.layers, strict=False) if ours == theirs)

    def has(self, blob: BlobDescriptor) -> bool:
        return blob.digest in self.parts

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        self.parts[blob.digest] = data.read(blob.size)
        if blob.media_type == media.LAYER_GZIP:
            self.layers_now.append(int(blob.annotations[media.RAW_BYTES]))

    def finish(self, index: bytes) -> str:
        image_manifest, snapshot_manifest = (
            json.loads(self.parts[each["digest"]]) for each in json.loads(index)["manifests"]
        )
        config = json.loads(self.parts[image_manifest["config"]["digest"]])
        self.layers = config["rootfs"]["diff_ids"]
        self.described = json.loads(self.parts[snapshot_manifest["config"]["digest"]])
        return "there"

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        """Keep everything."""


@pytest.fixture
def engine() -> LayeredEngine:
    return LayeredEngine()


@pytest.fixture
def context(home: Home, engine: LayeredEngine) -> Context:
    return context_of(home, engine)


@pytest.fixture
def first(context: Context, engine: LayeredEngine) -> SnapshotRow:
    """A snapshot whose image the engine has: a layer of the image below, and one of the container."""
    row = _kept(context, running(context, engine), "first", FIRST)
    engine.images.add(FIRST, image.ref_of(row.id))
    engine.images.labels[FIRST] = LABELS
    engine.images.contents[FIRST] = [BASE, WRITTEN]
    return row


@pytest.fixture
def second(context: Context, first: SnapshotRow) -> SnapshotRow:
    """A snapshot of the same container with one more layer, of which no image has been made."""
    session = context.store.session(first.session_id)
    row = _kept(context, session, "second", "")
    folder = context.home.snapshots / row.id
    layer = folder / file_entry.FOLDER
    layer.mkdir()
    (layer / file_entry.DATA).write_bytes(b"changed")
    files = [
        FileEntry("root", file_entry.DIRECTORY, mode=0o700),
        FileEntry("root/.netrc", file_entry.FILE, size=7),
        FileEntry("workspace/file", file_entry.WHITEOUT),
    ]
    file_entry.write(layer / file_entry.ENTRIES, files)
    archive = LayerArchive(layer)
    for _ in archive.read():
        pass
    below = ParentImage("amd64", "linux", {"Labels": LABELS}, (_digest(BASE), _digest(WRITTEN)))
    config = image.config_of(below, {}, archive.digest).decode()
    unmade_image.write(folder, UnmadeImage(config, FIRST, 2, 1), archive.files)
    shutil.rmtree(layer)
    return row


def _kept(context: Context, session: SessionRow, label: str, made: str) -> SnapshotRow:
    row = snapshot(context, session, label, kind="filesystem")
    kept = Manifest(
        id=row.id,
        kind="filesystem",
        label=label,
        created_at=row.created_at,
        session=session.id,
        session_name=session.name,
        generation=0,
        parent=None,
        image=made,
        options={},
        processes=None,
        files=[],
    )
    manifest.write(context.home.snapshots / row.id, kept)
    return row


def _sizes(receiver: Receiver) -> list[int]:
    """Return the sizes of layers that arrived since the last call, unpacked."""
    found, receiver.layers_now = receiver.layers_now, []
    return found


def test_only_the_layer_on_top_of_the_first_image_travels(
    context: Context,
    engine: LayeredEngine,
    first: SnapshotRow,
    second: SnapshotRow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read from its copy: the engine makes no image. The bundle says what is of one container."""
    monkeypatch.setattr(engine.images, "load", lambda *_: pytest.fail("an image was made"))
    receiver, series = Receiver(), BundleSeries()
    with series:
        send(context, first, receiver, SendOptions(), series)
        assert receiver.layers == [_digest(BASE), _digest(WRITTEN)]
        assert _sizes(receiver) == [len(BASE), len(WRITTEN)]
        assert "written" not in receiver.described["details"]
        sent = send(context, second, receiver, SendOptions(), series)
    assert len(receiver.layers) == 3
    (size,) = _sizes(receiver)
    assert size < len(WRITTEN) // 4
    assert receiver.described["details"]["written"] == [1]
    assert receiver.described["base"] == 1
    assert any("/root/.netrc" in warning for warning in sent.warnings)
    assert left(context, engine)["staging"] == []


def test_a_receiver_that_does_not_keep_layers_apart_gets_them_merged(
    context: Context, engine: LayeredEngine, first: SnapshotRow, second: SnapshotRow
) -> None:
    """As one of an older version: the file that was removed since is not in what it gets then."""
    receiver, series = Receiver(), BundleSeries()
    with series:
        send(context, first, receiver, SendOptions(), series)
        series.layers = ()
        _sizes(receiver)
        send(context, second, receiver, SendOptions(), series)
    assert len(receiver.layers) == 2
    assert receiver.layers[0] == _digest(BASE)
    assert receiver.layers[1] not in (_digest(WRITTEN), second.image_id)
    (size,) = _sizes(receiver)
    assert size < len(WRITTEN)
    assert "written" not in receiver.described["details"]


def test_an_image_that_was_made_meanwhile_is_sent_from_the_engine(
    context: Context, engine: LayeredEngine, first: SnapshotRow, second: SnapshotRow
) -> None:
    """The packer may have made it, and removed the copies: the same layers are sent."""
    layers: list[list[str]] = []
    for made in (False, True):
        if made:
            unmade = unmade_image.read(context.home.snapshots / second.id)
            assert unmade is not None
            top = b"".join(LayerArchive(unmade_image.copy_of(context.home.snapshots / second.id, 0)).read())
            engine.images.add(unmade.id, image.ref_of(second.id))
            engine.images.labels[unmade.id] = LABELS
            engine.images.contents[unmade.id] = [BASE, WRITTEN, top]
            unmade_image.release(context.home.snapshots / second.id)
        receiver, series = Receiver(), BundleSeries()
        with series:
            send(context, first, receiver, SendOptions(), series)
            send(context, second, receiver, SendOptions(), series)
        layers.append(receiver.layers)
    assert layers[0] == layers[1]


def test_an_imported_image_remembers_which_layers_are_of_one_container(
    context: Context, first: SnapshotRow, second: SnapshotRow, tmp_path: Path
) -> None:
    """So they are merged when it leaves that machine."""
    theirs = LayeredEngine()
    other = context_of(Home(tmp_path / "there").create(), theirs)
    series = BundleSeries()
    with series:
        with FileDestination(tmp_path / "first") as end:
            send(context, first, end, SendOptions(), series)
        with FileDestination(tmp_path / "second") as end:
            send(context, second, end, SendOptions(), series)
    with FileOrigin(tmp_path / "second") as origin:
        row = receive(other, origin, ReceiveOptions(files_only=True))
    labels = theirs.images.labels[str(row.image_id)]
    assert labels[image.WRITTEN_LABEL] == "1"
    assert image.parts({"Labels": labels}, 3) == [(0, 1), (1, 3)]
