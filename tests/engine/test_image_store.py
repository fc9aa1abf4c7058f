"""Where layers are: known from the description of an engine, and by containerd's records."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.engine.test_bolt import LEAF, inline, meta, page, there

from holdfast.engine import image_store
from holdfast.engine.image_store import ImageStore

SNAPSHOTTER = "io.containerd.snapshotter.v1.overlayfs"
CONTENT = "io.containerd.content.v1.content/blobs/sha256"


@pytest.mark.parametrize(
    ("driver", "status", "expected"),
    [
        ("overlay2", [["Backing Filesystem", "extfs"]], ImageStore.OVERLAY2),
        ("overlayfs", [["driver-type", "io.containerd.snapshotter.v1"]], ImageStore.CONTAINERD),
        ("native", [["driver-type", "io.containerd.snapshotter.v1"]], ImageStore.OTHER),
        ("btrfs", [["Build Version", "v6"]], ImageStore.OTHER),
        ("fuse-overlayfs", None, ImageStore.OTHER),
    ],
)
def test_stores_are_distinguished(driver: str, status: Any, expected: ImageStore) -> None:
    assert image_store.kind({"Driver": driver, "DriverStatus": status}) is expected


def test_places_of_containerd_are_tried_in_their_likely_order() -> None:
    """Docker's own first, unless it names the system's."""
    own, system = Path("/data/containerd/daemon"), Path("/var/lib/containerd")
    info: dict[str, Any] = {"DockerRootDir": "/data"}
    assert image_store.usual_roots(info) == [own, system]
    for address, expected in (
        ("/run/containerd/containerd.sock", [system, own]),
        ("/var/run/docker/containerd/containerd.sock", [own, system]),
    ):
        assert image_store.usual_roots({**info, "Containerd": {"Address": address}}) == expected


def test_a_process_without_layers_of_containerd_names_no_place() -> None:
    """Neither one that does not exist nor this one."""
    assert image_store.root_of(0) is None
    assert image_store.root_of(os.getpid()) is None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An image of two layers, and a container of it; the numbers of folders are as Go writes them."""
    records = {
        b"moby/2/sha256:aa": [(0, b"id", b"\x01"), (0, b"kind", b"\x03")],
        b"moby/4/sha256:bb": [(0, b"id", b"\xac\x02"), (0, b"parent", b"moby/2/sha256:aa")],
        b"moby/7/c0ffee": [(0, b"id", b"\x07"), (0, b"parent", b"moby/4/sha256:bb")],
        b"moby/8/torn": [(0, b"id", b"\x08"), (0, b"parent", b"moby/5/gone")],
        b"moby/9/round": [(0, b"id", b"\x09"), (0, b"parent", b"moby/9/round")],
    }
    items = [(1, key, inline(list(values))) for key, values in records.items()]
    pages = [meta(0, 2, 1), meta(1, 2, 0), page(2, LEAF, [(1, b"v1", there(3))])]
    pages += [page(3, LEAF, [(1, b"snapshots", there(4))]), page(4, LEAF, items)]
    (tmp_path / SNAPSHOTTER).mkdir()
    (tmp_path / SNAPSHOTTER / "metadata.db").write_bytes(b"".join(pages))
    (tmp_path / CONTENT).mkdir(parents=True)
    return tmp_path


def test_folders_follow_the_records(root: Path) -> None:
    """The topmost first; a folder of containerd without this name is passed over."""
    there = root / SNAPSHOTTER / "snapshots"
    candidates = [root / "missing", root]
    assert image_store.folders_of(candidates, "sha256:bb") == [there / "300/fs", there / "1/fs"]
    assert image_store.folders_of(candidates, "c0ffee") == [there / "7/fs", there / "300/fs", there / "1/fs"]


@pytest.mark.parametrize("name", ["c0ff", "sha256:cc", "torn", "round", ""])
def test_incomplete_records_have_no_folders(root: Path, name: str) -> None:
    assert image_store.folders_of([root], name) == []


def test_blobs_are_compared_with_their_digests(root: Path) -> None:
    """One that was changed is as good as none."""
    digest = hashlib.sha256(b"{}").hexdigest()
    (root / CONTENT / digest).write_bytes(b"{}")
    assert image_store.blob([root], f"sha256:{digest}", 100) == b"{}"
    assert image_store.has_blobs([root / "missing", root], [f"sha256:{digest}"])
    assert not image_store.has_blobs([root], [f"sha256:{digest}", "sha256:00"])

    (root / CONTENT / digest).write_bytes(b"[]")
    assert image_store.blob([root], f"sha256:{digest}", 100) is None


def test_chains_name_a_layer_with_all_below() -> None:
    """The example is of the image specification's rule, computed once by hand."""
    first, second = "sha256:a", "sha256:b"
    expected = f"sha256:{hashlib.sha256(b'sha256:a sha256:b').hexdigest()}"
    assert list(image_store.chain_ids([first, second])) == [first, expected]
