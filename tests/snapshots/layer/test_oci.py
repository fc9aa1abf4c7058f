"""Images as OCI layouts that have only their topmost layer."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.layers import file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry
from holdfast.snapshots.layer.archive import LayerArchive
from holdfast.snapshots.layer.oci import Blob, OciLayout, search

BELOW = (Blob("application/vnd.docker.image.rootfs.diff.tar.gzip", "sha256:" + "b" * 64, 7),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / file_entry.DATA).write_bytes(b"hello")
    file_entry.write(tmp_path / file_entry.ENTRIES, [FileEntry("a", file_entry.FILE, mode=0o644, size=5)])
    return tmp_path


def members(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {one.name: file.read() for one in archive if (file := archive.extractfile(one))}


def test_a_layout_follows_the_specification_with_one_layer(folder: Path) -> None:
    """Documents are named by their digests, and the manifest names the parent's blobs as they were given."""
    layout = OciLayout(BELOW, lambda digest: json.dumps({"layer": digest}).encode(), "some/name:tag")

    found = members(b"".join(layout.read(LayerArchive(folder))))

    first, *documents = found
    for name in documents:
        assert name in ("index.json", "oci-layout") or name.endswith(hashlib.sha256(found[name]).hexdigest())
    (entry,) = json.loads(found["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/some/name:tag"
    manifest = json.loads(found["blobs/" + entry["digest"].replace(":", "/")])
    lower, layer = manifest["layers"]
    assert lower == {"mediaType": BELOW[0].mediaType, "digest": BELOW[0].digest, "size": 7}
    config = json.loads(found["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert config == {"layer": layer["digest"]}
    packed = found[first]
    assert layer["digest"] == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    assert members(packed) == {"a": b"hello"}
    assert len(packed) == layer["size"]
    assert len(found) == 5
    assert [each.digest for each in layout.layers] == [lower["digest"], layer["digest"]]
    assert layout.id == entry["digest"]


def test_no_two_layouts_give_their_layer_the_same_name(folder: Path) -> None:
    """containerd continues what a load that was aborted has left under a name, whatever it was."""
    names = set()
    for _ in range(2):
        layout = OciLayout(BELOW, str.encode, "some/name:tag")
        names.add(next(iter(members(b"".join(layout.read(LayerArchive(folder)))))))
    assert len(names) == 2


def image(store: dict[str, bytes], layers: list[str], **more: Any) -> str:
    """Put an image with these layers into a store, and return the digest of its manifest."""

    def put(content: Any) -> str:
        data = json.dumps(content).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        store[digest] = data
        return digest

    if "manifests" in more:
        return put(more)
    config = put({"rootfs": {"diff_ids": layers}})
    blobs = [{"mediaType": "tar+gzip", "digest": f"packed-{layer}", "size": 3} for layer in layers]
    return put({"config": {"digest": config}, "layers": blobs})


def test_blobs_of_an_image_are_its_manifests() -> None:
    """In an index, of the manifest with these layers, not of the first one."""
    store: dict[str, bytes] = {}
    other, ours = image(store, ["x"]), image(store, ["a", "b"])
    index = image(store, [], manifests=[{"digest": other}, {"digest": "sha256:missing"}, {"digest": ours}])

    expected = (Blob("tar+gzip", "packed-a", 3), Blob("tar+gzip", "packed-b", 3))
    assert search(store.get, ours, ["a", "b"]) == expected
    assert search(store.get, index, ["a", "b"]) == expected
    assert search(store.get, index, ["a"]) is None
    assert search(store.get, "sha256:missing", ["a"]) is None


def test_indexes_of_indexes_do_not_multiply() -> None:
    """Forty levels of two references each are forty documents, not 2**40 looks."""
    store: dict[str, bytes] = {}
    looks: list[str] = []
    top = image(store, ["x"])
    for _ in range(40):
        top = image(store, [], manifests=[{"digest": top}, {"digest": top}])

    def find(digest: str) -> bytes | None:
        looks.append(digest)
        return store.get(digest)

    assert search(find, top, ["a"]) is None
    assert len(looks) <= 42


@pytest.mark.parametrize("text", [b"no JSON", b"[]", b"{}", b'{"manifests": [1]}', b'{"config": {}}'])
def test_other_documents_have_no_blobs(text: bytes) -> None:
    assert search(lambda _digest: text, "sha256:x", []) is None
