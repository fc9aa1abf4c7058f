"""Sending and receiving: refusals, the order in which parts travel, and the remains of a failure."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Generator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from tests.engine.fake_engine import FakeEngine, FakeImages
from tests.runtime.orchestration import context_of, left, running, snapshot

from holdfast.base.home import Home
from holdfast.errors import (
    BundleRefused,
    BundleUntrusted,
    EngineError,
    InvalidArgument,
    SecretsFound,
    SnapshotDamaged,
    SnapshotNotFound,
    StoreError,
)
from holdfast.runtime.operations.context import Context
from holdfast.runtime.storage.snapshot_storage import image_ref
from holdfast.runtime.store.rows import SnapshotRow
from holdfast.runtime.transfer import push_pull
from holdfast.runtime.transfer.push_pull import ThinDestination
from holdfast.runtime.transfer.receive import receive
from holdfast.runtime.transfer.send import Sent, send
from holdfast.runtime.transfer.transfer_options import ReceiveOptions, SendOptions
from holdfast.snapshots import manifest
from holdfast.snapshots.bundle import media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin
from holdfast.snapshots.manifest import Manifest

IMAGE = "sha256:" + "1" * 64
SECRET = b"ghp_" + b"016C7e4B9f2A8d3E5a6B1c4D7e8F9a0B2c3D"


class LayeredImages(FakeImages):
    """Images with layers, which can be saved and loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[str, list[bytes]] = {}
        self.loading: Callable[[], None] = lambda: None

    def inspect(self, ref: str) -> dict[str, Any] | None:
        found = super().inspect(ref)
        if found is None or found["Id"] not in self.contents:
            return found
        layers = [_digest(data) for data in self.contents[found["Id"]]]
        return {**found, "Architecture": "amd64", "Os": "linux", "RootFS": {"Layers": layers}}

    def save(self, ref: str, block: int) -> Generator[bytes, None, None]:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for number, layer in enumerate(self.contents[str(self.described(ref)["Id"])]):
                _add(archive, f"{number}/layer.tar", layer)
        yield data.getvalue()

    def load(self, archive: Iterable[bytes], what: str) -> None:
        read = io.BytesIO(b"".join(archive))
        self.loading()
        with tarfile.open(fileobj=read) as members:
            contents = {one.name: _content(members, one) for one in members}
        (listed,) = json.loads(contents["manifest.json"])
        config = contents[listed["Config"]]
        identity = _digest(config)
        self.add(identity, *listed["RepoTags"])
        self.labels[identity] = json.loads(config)["config"]["Labels"]
        self.contents[identity] = [contents[name] for name in listed["Layers"]]

    def layer_digests(self) -> Generator[tuple[str, ...], None, None]:
        for identity in self.contents:
            yield tuple(self.described(identity)["RootFS"]["Layers"])


class LayeredEngine(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.images: LayeredImages = LayeredImages()


class Recorded(FileDestination):
    """A file that notes the kinds of the parts it gets, and fails at one of them."""

    def __init__(self, path: Path, fail_at: str = "") -> None:
        super().__init__(path)
        self.kinds: list[str] = []
        self._fail_at = fail_at

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        if blob.media_type == self._fail_at:
            raise StoreError("cannot write: no space left on device")
        self.kinds.append(blob.media_type)
        super().put(blob, data)

    def finish(self, index: bytes) -> str:
        self.kinds.append(media.INDEX)
        return super().finish(index)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    data = archive.extractfile(member)
    assert data is not None
    return data.read()


def _layer(data: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as members:
        _add(members, "workspace/file", data)
    return archive.getvalue()


@pytest.fixture
def engine() -> LayeredEngine:
    return LayeredEngine()


@pytest.fixture
def context(home: Home, engine: LayeredEngine) -> Context:
    return context_of(home, engine)


@pytest.fixture
def taken(context: Context, engine: LayeredEngine) -> SnapshotRow:
    """A snapshot of files, whose image has one layer."""
    row = snapshot(context, running(context, engine), "taken", kind="filesystem")
    engine.images.add(IMAGE, image_ref(row.id))
    engine.images.contents[IMAGE] = [_layer(b"hello")]
    kept = Manifest(
        id=row.id,
        kind="filesystem",
        label="taken",
        created_at=datetime.now(UTC),
        session=row.session_id,
        session_name="work",
        generation=0,
        parent=None,
        image=IMAGE,
        options={},
        processes=None,
        files=[],
    )
    manifest.write(context.home.snapshots / row.id, kept)
    return row


@pytest.fixture
def there(tmp_path: Path) -> tuple[Context, LayeredEngine]:
    """Another machine."""
    engine = LayeredEngine()
    return context_of(Home(tmp_path / "there").create(), engine), engine


def _send(context: Context, row: SnapshotRow, end: FileDestination, **options: Any) -> Sent:
    with end:
        return send(context, row, end, SendOptions(**options))


def _receive(context: Context, path: Path, **options: Any) -> SnapshotRow:
    with FileOrigin(path) as origin:
        return receive(context, origin, ReceiveOptions(**options))


def _nothing(context: Context, engine: LayeredEngine) -> bool:
    return not any(left(context, engine).values()) and engine.images.tags == {}


def test_parts_travel_before_their_index(context: Context, taken: SnapshotRow, tmp_path: Path) -> None:
    """A bundle that was cut off does not have an index."""
    end = Recorded(tmp_path / "bundle")
    sent = _send(context, taken, end)
    assert end.kinds[0] == media.LAYER_GZIP
    assert end.kinds[-2:] == [media.MANIFEST, media.INDEX]
    assert end.kinds.index(media.IMAGE_CONFIG) < end.kinds.index(media.MANIFEST)
    assert end.kinds.index(media.MANIFEST) < end.kinds.index(media.SNAPSHOT_CONFIG)
    assert sent.sent == sent.bytes
    assert sent.signed_by == ""


@pytest.mark.parametrize("kind", [media.LAYER_GZIP, media.IMAGE_CONFIG, media.SNAPSHOT_CONFIG])
def test_a_destination_that_fails_leaves_no_file_and_no_operation(
    context: Context, engine: LayeredEngine, taken: SnapshotRow, tmp_path: Path, kind: str
) -> None:
    """Whichever part it fails at."""
    before = left(context, engine)
    with pytest.raises(StoreError, match="no space left"):
        _send(context, taken, Recorded(tmp_path / "bundle", kind))
    assert left(context, engine) == before
    assert before["operations"] == before["staging"] == []
    assert not list(tmp_path.glob("*bundle*"))


def test_a_snapshot_that_cannot_be_used_is_not_sent(
    context: Context, engine: LayeredEngine, taken: SnapshotRow, tmp_path: Path
) -> None:
    """One that is marked as damaged, one without a manifest, and one that was removed."""
    end = Recorded(tmp_path / "bundle")
    details = taken.details.plus(damage="its image is gone")
    damaged = context.store.update_snapshot(taken.id, state="damaged", details=details)
    with pytest.raises(SnapshotDamaged, match="its image is gone"):
        _send(context, damaged, end)
    unexplained = context.store.update_snapshot(taken.id, state="damaged", details=taken.details)
    with pytest.raises(SnapshotDamaged, match="marked as damaged"):
        _send(context, unexplained, end)
    (context.home.snapshots / taken.id / manifest.FILE).unlink()
    with pytest.raises(SnapshotDamaged, match="manifest"):
        _send(context, taken, end)
    context.store.forget_snapshot(taken.id)
    with pytest.raises(SnapshotNotFound):
        _send(context, taken, end)
    assert end.kinds == []
    assert left(context, engine)["operations"] == left(context, engine)["staging"] == []


def test_a_secret_is_refused_before_anything_is_sent(
    context: Context, engine: LayeredEngine, taken: SnapshotRow, tmp_path: Path
) -> None:
    """With a warning instead, it is sent and reported."""
    engine.images.contents[IMAGE] = [_layer(SECRET)]
    end = Recorded(tmp_path / "bundle")
    with pytest.raises(SecretsFound):
        _send(context, taken, end, secrets="refuse")
    assert end.kinds == []
    assert left(context, engine)["staging"] == []
    assert _send(context, taken, end, secrets="warn").findings


def test_a_snapshot_arrives_with_its_files_and_only_once(
    context: Context, taken: SnapshotRow, tmp_path: Path, there: tuple[Context, LayeredEngine]
) -> None:
    """A second import finds the first."""
    other, engine = there
    sent = _send(context, taken, FileDestination(tmp_path / "bundle"))
    row = _receive(other, tmp_path / "bundle", files_only=True)
    assert (row.label, row.kind, row.state) == ("taken", "filesystem", "ready")
    assert row.details.origin is not None
    assert row.details.origin["digest"] == sent.digest
    assert engine.images.contents[row.image_id or ""] == [_layer(b"hello")]
    assert left(other, engine) == {
        "sessions": [],
        "snapshots": ["taken"],
        "operations": [],
        "containers": [],
        "staging": [],
    }
    engine.images.loading = lambda: pytest.fail("it was loaded twice")
    assert _receive(other, tmp_path / "bundle", files_only=True).id == row.id


def test_a_snapshot_arrives_through_a_descriptor(
    context: Context, taken: SnapshotRow, tmp_path: Path, there: tuple[Context, LayeredEngine]
) -> None:
    """And a truncated one leaves nothing."""
    other, engine = there
    way = tmp_path / "way"
    with way.open("wb") as stream:
        sent = push_pull.export(context, taken, stream.fileno(), SendOptions())
    whole = way.read_bytes()
    way.write_bytes(whole[: len(whole) // 2])
    with way.open("rb") as stream, pytest.raises(BundleRefused, match="from the pipe"):
        push_pull.import_(other, stream.fileno(), ReceiveOptions(files_only=True))
    assert _nothing(other, engine)
    way.write_bytes(whole)
    with way.open("rb") as stream:
        row = push_pull.import_(other, stream.fileno(), ReceiveOptions(files_only=True))
    assert row.details.origin is not None
    assert row.details.origin["digest"] == sent.digest
    assert left(other, engine)["staging"] == []


def test_an_untrusted_signer_is_refused_before_anything_is_recorded(
    context: Context, taken: SnapshotRow, tmp_path: Path, there: tuple[Context, LayeredEngine]
) -> None:
    """No signature; an unknown key; the same key, trusted."""
    other, engine = there
    _send(context, taken, FileDestination(tmp_path / "bare"))
    with pytest.raises(BundleUntrusted, match="not signed"):
        _receive(other, tmp_path / "bare")
    key, _ = Keys(context.home).sending()
    _send(context, taken, FileDestination(tmp_path / "signed"), sign=key)
    with pytest.raises(BundleUntrusted, match="do not trust"):
        _receive(other, tmp_path / "signed")
    assert _nothing(other, engine)
    Keys(other.home).trust(key.public, "them")
    assert _receive(other, tmp_path / "signed").state == "ready"


def test_a_thin_bundle_needs_its_layers_there(
    context: Context,
    engine: LayeredEngine,
    taken: SnapshotRow,
    tmp_path: Path,
    there: tuple[Context, LayeredEngine],
) -> None:
    """Without them it is refused before anything is unpacked."""
    other, theirs = there
    (layers,) = [each for each in engine.images.layer_digests() if each]
    whole = _send(context, taken, FileDestination(tmp_path / "whole"))
    with ThinDestination(FileDestination(tmp_path / "thin"), layers) as end:
        thin = send(context, taken, end)
    assert thin.sent < whole.sent
    with pytest.raises(BundleRefused, match="without layers, and this engine lacks them") as raised:
        _receive(other, tmp_path / "thin", files_only=True)
    assert "--thin" in raised.value.hint
    assert _nothing(other, theirs)


def test_only_the_lowest_layers_of_the_known_image_are_left_out(tmp_path: Path) -> None:
    """A layer above a different one is sent."""
    end = ThinDestination(FileDestination(tmp_path / "thin"), ("a", "b", "c"))
    assert [end.layers_there(each) for each in (("a", "b", "x"), ("a", "b"), ("x", "b", "c"), ())] == [
        *(2, 2, 0, 0)
    ]


def test_a_taken_label_is_refused_before_anything_is_read(
    context: Context, taken: SnapshotRow, tmp_path: Path
) -> None:
    """An empty file is enough to show it."""
    (tmp_path / "bundle").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="the label is taken"):
        receive(context, FileOrigin(tmp_path / "bundle"), ReceiveOptions(label="taken"))


def test_a_changed_layer_never_reaches_the_engine(
    context: Context, taken: SnapshotRow, tmp_path: Path, there: tuple[Context, LayeredEngine]
) -> None:
    """One bit is enough."""
    other, engine = there
    engine.images.loading = lambda: pytest.fail("the engine was given something")
    end = Recorded(tmp_path / "bundle")
    _send(context, taken, end)
    with tarfile.open(tmp_path / "bundle") as archive:
        first = next(one for one in archive if one.name.startswith("blobs/") and one.isreg())
        place = first.offset_data + first.size // 2
    data = bytearray((tmp_path / "bundle").read_bytes())
    data[place] ^= 1
    (tmp_path / "bundle").write_bytes(data)
    with pytest.raises(BundleRefused):
        _receive(other, tmp_path / "bundle", files_only=True)
    assert _nothing(other, engine)


@pytest.mark.parametrize("error", [EngineError("cannot load"), KeyboardInterrupt()])
def test_an_engine_that_fails_leaves_nothing_half_imported(
    context: Context,
    taken: SnapshotRow,
    tmp_path: Path,
    there: tuple[Context, LayeredEngine],
    error: BaseException,
) -> None:
    """When the layers and the row are there already; the next attempt succeeds."""
    other, engine = there
    _send(context, taken, FileDestination(tmp_path / "bundle"))

    def fail() -> None:
        assert left(other, engine)["snapshots"] == ["taken"]
        raise error

    engine.images.loading = fail
    with pytest.raises(type(error)):
        _receive(other, tmp_path / "bundle", files_only=True)
    assert _nothing(other, engine)
    engine.images.loading = lambda: None
    assert _receive(other, tmp_path / "bundle", files_only=True).state == "ready"


def test_a_failure_after_the_image_was_loaded_takes_it_back(
    context: Context,
    taken: SnapshotRow,
    tmp_path: Path,
    there: tuple[Context, LayeredEngine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other home is as empty as before."""
    other, engine = there
    _send(context, taken, FileDestination(tmp_path / "bundle"))

    def full(*_: object) -> None:
        assert engine.images.tags
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest, "write", full)
    with pytest.raises(StoreError, match="No space left"):
        _receive(other, tmp_path / "bundle", files_only=True)
    assert _nothing(other, engine)
    assert list(other.home.snapshots.iterdir()) == []
