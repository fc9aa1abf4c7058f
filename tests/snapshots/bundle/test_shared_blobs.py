"""Bundles of one folder: each part is there once, and nothing in the folder is trusted."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from tests.snapshots.registry.fake import blob_of

from holdfast.errors import BundleRefused, HoldfastError, StoreError
from holdfast.snapshots.bundle import form, media, shared_blobs
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin
from holdfast.snapshots.bundle.shared_blobs import SharedDestination, SharedOrigin

COMMON, OWN = b"of all bundles" * 1000, b"of one"
MANIFEST = form.image_manifest(blob_of(b"{}", media.IMAGE_CONFIG), [])


def put(path: Path, *parts: bytes) -> int:
    """Write a bundle, and return how many of its parts were there."""
    with SharedDestination(path, path.stem) as destination:
        there = sum(destination.has(blob_of(part)) for part in parts)
        for part in parts:
            destination.put(blob_of(part), io.BytesIO(part))
        destination.put(blob_of(MANIFEST, media.MANIFEST), io.BytesIO(MANIFEST))
        destination.finish(form.dumps({"manifests": [], "annotations": {"of": path.stem}}))
    return there


def names(folder: Path) -> list[str]:
    listed = json.loads((folder / "index.json").read_text())["manifests"]
    return [each["annotations"]["org.opencontainers.image.ref.name"] for each in listed]


def test_a_part_of_two_bundles_is_kept_once(tmp_path: Path) -> None:
    assert put(tmp_path / "a.holdfast", COMMON, OWN) == 0
    assert put(tmp_path / "b.holdfast", COMMON, b"of the other") == 1

    assert names(tmp_path) == ["a", "b"]
    assert json.loads((tmp_path / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    for name, own in (("a", OWN), ("b", b"of the other")):
        with shared_blobs.origin(tmp_path / f"{name}.holdfast") as origin:
            assert json.loads(origin.index())["annotations"]["of"] == name
            for part in (COMMON, own):
                with origin.open(blob_of(part)) as stream:
                    assert stream.read() == part


def test_a_bundle_that_is_written_again_replaces_itself(tmp_path: Path) -> None:
    put(tmp_path / "a.holdfast", OWN)
    put(tmp_path / "b.holdfast", OWN)
    put(tmp_path / "a.holdfast", COMMON)
    assert sorted(names(tmp_path)) == ["a", "b"]


def test_an_abandoned_transfer_removes_only_its_own_parts(tmp_path: Path) -> None:
    put(tmp_path / "a.holdfast", COMMON)
    before = sorted(each.name for each in tmp_path.rglob("*"))

    with SharedDestination(tmp_path / "b.holdfast", "b") as destination:
        for part in (COMMON, OWN):
            destination.put(blob_of(part), io.BytesIO(part))

    assert sorted(each.name for each in tmp_path.rglob("*")) == before


def test_a_list_of_bundles_that_cannot_be_read_is_begun_again(tmp_path: Path) -> None:
    for left in (b"", b"[", b'{"manifests": [5]}', b"[" * 100_000):
        (tmp_path / "index.json").write_bytes(left)
        put(tmp_path / "a.holdfast", OWN)
        assert names(tmp_path) == ["a"]


def test_a_part_that_is_cut_off_is_written_again(tmp_path: Path) -> None:
    put(tmp_path / "a.holdfast", COMMON)
    part = tmp_path / "blobs" / "sha256" / blob_of(COMMON).hex
    part.chmod(0o600)
    part.write_bytes(COMMON[:100])

    assert put(tmp_path / "b.holdfast", COMMON) == 0

    assert part.read_bytes() == COMMON


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "larger", "missing"])
def test_only_regular_files_are_parts(tmp_path: Path, kind: str) -> None:
    """A link would read a file of the host; opening a pipe would wait for ever."""
    put(tmp_path / "a.holdfast", OWN)
    part = tmp_path / "blobs" / "sha256" / blob_of(OWN).hex
    part.unlink()
    (tmp_path / "secret").write_bytes(OWN)
    if kind == "link":
        part.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(part)
    elif kind == "folder":
        part.mkdir()
    elif kind == "larger":
        part.write_bytes(OWN + b"more")

    with SharedDestination(tmp_path / "b.holdfast", "b") as destination:
        assert not destination.has(blob_of(OWN))
    with shared_blobs.origin(tmp_path / "a.holdfast") as origin, pytest.raises(HoldfastError, match="cannot"):
        origin.open(blob_of(OWN))


def test_a_file_without_its_folder_says_what_to_copy(tmp_path: Path) -> None:
    put(tmp_path / "there" / "a.holdfast", OWN)
    alone = tmp_path / "a.holdfast"
    alone.write_bytes((tmp_path / "there" / "a.holdfast").read_bytes())

    with shared_blobs.origin(alone) as origin, pytest.raises(BundleRefused) as raised:
        origin.index()

    assert "copy the whole folder" in raised.value.hint


def test_either_kind_of_file_is_recognized(tmp_path: Path) -> None:
    whole = tmp_path / "whole.holdfast"
    with FileDestination(whole) as destination:
        destination.put(blob_of(MANIFEST, media.MANIFEST), io.BytesIO(MANIFEST))
        destination.finish(b'{"manifests":[]}')
    put(tmp_path / "shared.holdfast", OWN)

    assert type(shared_blobs.origin(whole)) is FileOrigin
    assert type(shared_blobs.origin(tmp_path / "shared.holdfast")) is SharedOrigin
    with pytest.raises(StoreError, match="cannot read"), shared_blobs.origin(tmp_path / "missing"):
        pass


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write"), SharedDestination(tmp_path / "file" / "a.holdfast"):
        pass
