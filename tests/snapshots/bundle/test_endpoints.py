"""Rules for all ends of a bundle's way, as `endpoints` has them: files, shared parts, registries."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.snapshots.registry.fake import FakeRegistry, blob_of

from holdfast.base import polling
from holdfast.errors import HoldfastError
from holdfast.snapshots.bundle import form, media, shared_blobs
from holdfast.snapshots.bundle.endpoints import BundleDestination, BundleOrigin
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin
from holdfast.snapshots.bundle.shared_blobs import SharedDestination
from holdfast.snapshots.registry.registry_endpoint import RegistryDestination, RegistryOrigin

SMALL, LARGE = b"hello", bytes(range(250)) * 20
MANIFEST = form.image_manifest(blob_of(b"{}", media.IMAGE_CONFIG), [])
INDEX = b'{"manifests":[]}'
MANIFEST_BLOB = blob_of(MANIFEST, media.MANIFEST)


@dataclass(frozen=True)
class Ends:
    """Both ends of one place."""

    destination: Callable[[], BundleDestination]
    origin: Callable[[], BundleOrigin]


@pytest.fixture(params=["file", "shared", "registry"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Ends:
    if request.param == "file":
        path = tmp_path / "bundle.tar"
        return Ends(lambda: FileDestination(path, "name"), lambda: FileOrigin(path))
    if request.param == "shared":
        path = tmp_path / "folder" / "bundle.holdfast"
        return Ends(lambda: SharedDestination(path, "name"), lambda: shared_blobs.origin(path))
    registry = FakeRegistry()
    return Ends(
        lambda: RegistryDestination(registry.client(), chunk=1000), lambda: RegistryOrigin(registry.client())
    )


def send(ends: Ends) -> str:
    with ends.destination() as destination:
        for data in (SMALL, LARGE):
            assert not destination.has(blob_of(data))
            destination.put(blob_of(data), io.BytesIO(data))
        for data in (SMALL, LARGE):  # one of them is sent in the background
            assert polling.until(partial(destination.has, blob_of(data)), 30)
        destination.put(MANIFEST_BLOB, io.BytesIO(MANIFEST))
        return destination.finish(INDEX)


def give_up(ends: Ends) -> None:
    with ends.destination() as destination:
        destination.put(blob_of(SMALL), io.BytesIO(SMALL))
        destination.put(MANIFEST_BLOB, io.BytesIO(MANIFEST))
        raise KeyError


def test_stored_content_is_found_by_its_digest(ends: Ends) -> None:
    """From any place in it on, which is how a broken transfer is resumed; and the origin says what it is."""
    where = send(ends)

    with ends.origin() as origin:
        assert origin.index() == INDEX
        assert origin.name == where
        for blob, data in ((blob_of(SMALL), SMALL), (blob_of(LARGE), LARGE), (MANIFEST_BLOB, MANIFEST)):
            with origin.open(blob) as stream:
                assert stream.read() == data
        with origin.open(blob_of(LARGE), 4998) as stream:
            assert stream.read() == LARGE[4998:]


def test_a_blob_can_be_put_again(ends: Ends) -> None:
    """The sender does not necessarily know that it exists."""
    with ends.destination() as destination:
        for _ in range(2):
            destination.put(blob_of(SMALL), io.BytesIO(SMALL))
        destination.put(MANIFEST_BLOB, io.BytesIO(MANIFEST))
        destination.finish(INDEX)

    with ends.origin() as origin, origin.open(blob_of(SMALL)) as stream:
        assert stream.read() == SMALL


def test_nothing_is_found_before_it_is_finished(ends: Ends) -> None:
    """Nor if it was left because of an error."""
    with pytest.raises(KeyError):
        give_up(ends)

    with pytest.raises(HoldfastError), ends.origin() as origin:
        origin.index()


def test_missing_files_raise_our_errors(ends: Ends) -> None:
    """And of no library."""
    send(ends)

    with ends.origin() as origin, pytest.raises(HoldfastError), origin.open(blob_of(b"never put")) as stream:
        stream.read()
