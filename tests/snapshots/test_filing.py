"""A repeated capture's treatment of the files."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from holdfast.engine.image_store import ImageStore
from holdfast.errors import CaptureFailed, EngineError, ImageError
from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.filing import Filing
from holdfast.snapshots.layer import unmade_image
from holdfast.snapshots.layer.layer_chain import LayerChain
from holdfast.snapshots.layer.oci import MOST_IMAGES, Blob, KnownBlobs

NO_CHAIN = LayerChain(Path("/nonexistent"), "c" * 64)


class Asked:
    """Stands at the place of the checkpointer; counts what it is asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []

    def __call__(self, op: str, /, **fields: object) -> Any:
        self.requests.append({"op": op, **fields})
        return self

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def until(self, _last: str) -> dict[str, bool]:
        return {"kept": True}


def filing_of(
    folder: Path, engine: Any, container: Any, asked: Asked, known: KnownBlobs | None = None
) -> Filing:
    known = known or KnownBlobs(folder / "blobs.json")
    staging, place = folder / "0123456789ab", folder / "snapshot"
    return Filing(engine, asked, container, staging, place, "ref", {}, known, NO_CHAIN)


def test_files_are_copied_once_however_often_a_capture_is_tried(tmp_path: Path) -> None:
    """The copy of the first attempt is as good for the second, which copies what has changed."""
    asked = Asked()
    config = {"Labels": {"holdfast.base-layers": "2"}}
    attributes = {
        "Architecture": "amd64",
        "Os": "linux",
        "Config": config,
        "RootFS": {"Layers": ["a", "b", "c"]},
    }
    images = SimpleNamespace(described=lambda _id: attributes, tag=lambda *_: None)
    engine: Any = SimpleNamespace(layers=SimpleNamespace(store=lambda: ImageStore.OVERLAY2), images=images)
    container: Any = SimpleNamespace(id="c" * 64, pid=7, image_id="sha256:1")
    filing = filing_of(tmp_path, engine, container, asked)

    filing.begin()
    filing.begin()

    assert not filing.by_engine
    assert asked.requests == [
        {"op": "files", "container": "c" * 64, "init_pid": 7, "folder": "0123456789ab", "flatten": 0}
    ]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("lost", ["/srv/.wh.x", f"/{'/'.join(['p' * 200] * 20)}"])
def test_the_engine_makes_no_image_that_lacks_a_file(tmp_path: Path, running: bool, lost: str) -> None:
    """An archive of the engine takes such a name for a deletion, or leaves it out: it is refused by path."""
    steps: list[str] = []

    @contextmanager
    def paused(_id: str) -> Iterator[None]:
        steps.append("pause")
        yield
        steps.append("unpause")

    found = [(lost, 2), ("/srv/plain", 1)]

    def unreadable() -> NoReturn:
        raise ImageError("cannot read its layers")

    def differences(_id: str) -> list[tuple[str, int]]:
        steps.append("look")
        return found

    def commit(*_: object) -> str:
        steps.append("commit")
        return "sha256:2"

    attributes = {"Architecture": "amd64", "Os": "linux", "Config": {}, "RootFS": {"Layers": ["a"]}}
    engine: Any = SimpleNamespace(
        layers=SimpleNamespace(store=unreadable),
        images=SimpleNamespace(described=lambda _id: attributes),
        files=SimpleNamespace(differences=differences),
        paused=paused,
        commit=commit,
    )
    container: Any = SimpleNamespace(id="c" * 64, pid=7, image_id="sha256:1", running=running)
    filing = filing_of(tmp_path, engine, container, Asked())
    around = (["pause"], ["unpause"]) if running else ([], [])
    assert filing.pausing() == "sha256:2"  # it was deleted, and is only hidden
    assert steps == [*around[0], "look", "commit", *around[1]]

    steps.clear()
    found.append((lost, 1))
    with pytest.raises(CaptureFailed, match=re.escape(lost[:9])) as refused:
        filing.pausing()
    assert "commit" not in steps
    assert ("holdfast resume" in refused.value.hint) != running


KILLED = "cannot keep the files: Error processing tar file(signal: killed): "


@pytest.mark.parametrize(
    ("faults", "fault"),
    [([KILLED], ""), ([KILLED, KILLED], "signal: killed"), (["cannot keep the files: no space"], "no space")],
)
def test_an_unpacking_that_was_killed_is_done_once_more(
    tmp_path: Path, faults: list[str], fault: str
) -> None:
    """The engine unpacks a layer in a process of its own; each attempt reads the layer from its beginning."""
    attributes = {"Architecture": "amd64", "Os": "linux", "Config": {}, "RootFS": {"Layers": ["a"]}}
    read: list[bytes] = []
    there = {"sha256:1"}

    def load(archive: Iterator[bytes], _what: str) -> None:
        read.append(b"".join(archive))
        if faults:
            raise EngineError(faults.pop(0))
        there.add(made)

    def inspect(ref: str) -> dict[str, str] | None:
        return {"Id": ref} if ref in there else None

    images = SimpleNamespace(
        described=lambda _id: attributes, load=load, inspect=inspect, tag=lambda *_: None
    )
    engine: Any = SimpleNamespace(layers=SimpleNamespace(store=lambda: ImageStore.OVERLAY2), images=images)
    container: Any = SimpleNamespace(id="c" * 64, pid=7, image_id="sha256:1")
    staging = tmp_path / "0123456789ab"
    filing = filing_of(tmp_path, engine, container, Asked())
    filing.begin()
    layer = staging / file_entry.FOLDER
    layer.mkdir(parents=True)
    (layer / file_entry.DATA).write_bytes(b"")
    file_entry.write(layer / file_entry.ENTRIES, [])
    made = filing.keep()
    assert not layer.exists()
    assert not read

    if fault:
        with pytest.raises(EngineError, match=fault):
            unmade_image.obtain(engine, staging, "ref")
        assert made not in there
    else:
        unmade_image.obtain(engine, staging, "ref")
        assert len(read) == 2
    assert all(each.startswith(b"new/layer.tar") for each in read)


def test_an_image_is_read_whole_once_where_the_store_of_containerd_is_closed(tmp_path: Path) -> None:
    """Others than root cannot see how its layers are stored; to learn it takes as long as an export."""
    config = json.dumps({"rootfs": {"diff_ids": ["a"]}}).encode()
    digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    layer = {"mediaType": "tar", "digest": "sha256:7", "size": 7}
    manifest = json.dumps({"config": {"digest": digest}, "layers": [layer]}).encode()
    image_id, saved = f"sha256:{hashlib.sha256(manifest).hexdigest()}", io.BytesIO()
    with tarfile.open(fileobj=saved, mode="w") as archive:
        for name, data in (("config", config), ("manifest", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    reads: list[str] = []

    def save(ref: str, _block: int) -> Iterator[bytes]:
        reads.append(ref)
        yield saved.getvalue()

    attributes = {"Architecture": "amd64", "Os": "linux", "Config": {}, "RootFS": {"Layers": ["a"]}}
    images = SimpleNamespace(described=lambda _id: attributes, save=save)
    layers = SimpleNamespace(store=lambda: ImageStore.CONTAINERD, blob=lambda *_: None)
    engine: Any = SimpleNamespace(layers=layers, images=images)
    container: Any = SimpleNamespace(id="c" * 64, pid=7, image_id=image_id)
    for _ in range(3):
        known = KnownBlobs(tmp_path / "cache" / "blobs.json")
        filing = filing_of(tmp_path, engine, container, Asked(), known)
        filing.begin()
        assert not filing.by_engine

    assert reads == [image_id]
    assert known.get(image_id, ["a"]) == (Blob("tar", "sha256:7", 7),)
    assert known.get(image_id, ["b"]) is None
    (tmp_path / "cache" / "blobs.json").write_text('{"x": [}')
    assert known.get(image_id, ["a"]) is None
    for number in range(MOST_IMAGES + 5):
        known.add(str(number), [], [])
    assert (known.get("4", []), known.get("5", [])) == (None, ())
