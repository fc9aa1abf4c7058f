"""A registry as the end of a bundle's way."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.snapshots.registry.fake import FakeRegistry, blob_of

from holdfast.errors import InvalidArgument, ReferenceNotFound, RegistryError, RegistryUnavailable
from holdfast.snapshots.bundle import media
from holdfast.snapshots.registry.registry_endpoint import RegistryDestination, RegistryOrigin

LAYERS = [bytes([n]) * 50 for n in range(20)] + [bytes(range(250))]
MANIFEST, INDEX = b'{"layers": []}', b'{"manifests": []}'
MANIFEST_BLOB = blob_of(MANIFEST, media.MANIFEST)


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


class Unseekable(io.BytesIO):
    """The output of a compressor."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_where: int) -> int:
        raise io.UnsupportedOperation


def _push(registry: FakeRegistry, reference: str = "registry.test/team/work:one") -> str:
    with RegistryDestination(registry.client(reference), chunk=100) as destination:
        for layer in LAYERS:
            if not destination.has(blob_of(layer)):
                destination.put(blob_of(layer), Unseekable(layer))
        destination.put(MANIFEST_BLOB, io.BytesIO(MANIFEST))
        return destination.finish(INDEX)


def test_a_pushed_snapshot_is_pulled(registry: FakeRegistry) -> None:
    """Under its tag, which then stands for a digest."""
    digest = blob_of(INDEX).digest
    assert _push(registry) == f"registry.test/team/work:one@{digest}"
    with RegistryOrigin(registry.client()) as origin:
        assert origin.index() == INDEX
        assert origin.name == f"registry.test/team/work:one@{digest}"
        assert origin.open(MANIFEST_BLOB).read() == MANIFEST
        assert [origin.open(blob_of(layer)).read() for layer in LAYERS] == LAYERS
        assert origin.open(blob_of(LAYERS[-1]), 100).read() == LAYERS[-1][100:]


def test_the_tag_comes_last(registry: FakeRegistry) -> None:
    """After the manifests, which come after all they name."""
    _push(registry)
    puts = [each for each in registry.seen if each.startswith("PUT")]
    assert puts[-2:] == [
        f"PUT /v2/team/work/manifests/{MANIFEST_BLOB.digest}",
        "PUT /v2/team/work/manifests/one",
    ]


def test_present_blobs_are_not_sent_again(registry: FakeRegistry) -> None:
    """The second time, nothing of it is."""
    _push(registry)
    registry.seen.clear()
    _push(registry)
    assert not any(each.startswith(("POST", "PATCH")) for each in registry.seen)


def test_a_failure_lets_nothing_be_found(registry: FakeRegistry) -> None:
    """One that happened in the background is raised before the manifest is sent."""
    bad = blob_of(LAYERS[7]).hex

    def fault(request: httpx.Request) -> Exception | None:
        return httpx.WriteError("reset") if bad in str(request.url.query) else None

    registry.fault = fault
    with pytest.raises(RegistryUnavailable):
        _push(registry)
    assert registry.manifests == {}


def test_no_digest_is_pushed_to(registry: FakeRegistry) -> None:
    """Its digest results from the pushed content."""
    with pytest.raises(InvalidArgument, match="its digest is computed from the content"):
        _push(registry, "registry.test/team/work@sha256:" + "0" * 64)


def _cut(registry: FakeRegistry, every: int) -> None:
    """Answers to GET end after this many bytes, and then the connection is lost."""

    class Broken(httpx.SyncByteStream):
        def __init__(self, content: bytes) -> None:
            self.content = content

        def __iter__(self) -> Iterator[bytes]:
            yield self.content[:every]
            if len(self.content) > every:
                raise httpx.ReadError("reset")

    def fault(request: httpx.Request) -> httpx.Response | None:
        if request.method != "GET" or "/blobs/" not in request.url.path:
            return None
        whole = registry._answer(request)
        return httpx.Response(whole.status_code, headers=whole.headers, stream=Broken(whole.content))

    registry.fault = fault


def test_a_blob_comes_over_many_connections(registry: FakeRegistry) -> None:
    """Each begins where the last was lost."""
    content = bytes(range(200))
    registry.blobs[blob_of(content).digest] = content
    _cut(registry, 30)
    with RegistryOrigin(registry.client()) as origin:
        assert origin.open(blob_of(content)).read() == content
    assert len(registry.seen) == 7


def test_an_answer_that_never_comes_is_given_up(registry: FakeRegistry) -> None:
    """After a number of connections that brought nothing, and a number in total."""
    content = bytes(200)
    registry.blobs[blob_of(content).digest] = content
    for every, most in ((0, 4), (1, 100)):
        registry.seen.clear()
        _cut(registry, every)
        with RegistryOrigin(registry.client()) as origin, pytest.raises(RegistryUnavailable):
            origin.open(blob_of(content)).read()
        assert len(registry.seen) == most


def test_no_more_comes_than_announced(registry: FakeRegistry) -> None:
    """A blob that is longer in the registry ends where its descriptor says."""
    registry.blobs[blob_of(b"short").digest] = b"short and much more"
    with RegistryOrigin(registry.client()) as origin:
        assert origin.open(blob_of(b"short")).read() == b"short"


def test_a_registry_that_knows_no_parts_sends_all(registry: FakeRegistry) -> None:
    """Existing parts are passed over."""
    content = bytes(range(200))
    registry.fault = lambda _request: httpx.Response(200, content=content)
    with RegistryOrigin(registry.client()) as origin:
        assert origin.open(blob_of(content), 150).read() == content[150:]


def test_another_part_than_was_asked_for_is_refused(registry: FakeRegistry) -> None:
    """It would be put together wrongly, and only be noticed at the end."""
    part = {"Content-Range": "bytes 0-99/200"}
    registry.fault = lambda _request: httpx.Response(206, headers=part, content=bytes(100))
    with RegistryOrigin(registry.client()) as origin, pytest.raises(RegistryError, match="a different part"):
        origin.open(blob_of(bytes(200)), 50).read()


def test_a_digest_is_kept_to(registry: FakeRegistry) -> None:
    """A registry that gives something else for it is found out."""
    digest = "sha256:" + "0" * 64
    registry.manifests[digest] = (media.INDEX, INDEX)
    with (
        RegistryOrigin(registry.client(f"registry.test/team/work@{digest}")) as origin,
        pytest.raises(RegistryError, match="a different digest"),
    ):
        origin.index()


def test_a_plain_image_or_missing_reference_is_reported(registry: FakeRegistry) -> None:
    """Each has an error of its own."""
    registry.manifests["one"] = (media.MANIFEST, MANIFEST)
    with RegistryOrigin(registry.client()) as origin, pytest.raises(RegistryError, match="it is an image"):
        origin.index()
    with (
        RegistryOrigin(registry.client("registry.test/team/work:none")) as origin,
        pytest.raises(
            ReferenceNotFound,
            match=r"registry\.test/team/work:none: the registry does not have it",
        ),
    ):
        origin.index()


def test_uploads_are_remembered_in_the_given_place(registry: FakeRegistry, tmp_path: Path) -> None:
    """And forgotten when they are done."""
    with RegistryDestination(registry.client(), tmp_path / "uploads", chunk=100) as destination:
        destination.put(blob_of(LAYERS[-1]), io.BytesIO(LAYERS[-1]))
        assert registry.blobs[blob_of(LAYERS[-1]).digest] == LAYERS[-1]
    assert list((tmp_path / "uploads").iterdir()) == []


LARGE = bytes(range(256)) * (5 << 10)


def _push_large(registry: FakeRegistry, folder: Path, repository: str) -> bool:
    """Push one blob; whether the registry had it."""
    with RegistryDestination(registry.client(f"registry.test/{repository}:one"), folder) as destination:
        had = destination.has(blob_of(LARGE))
        if not had:
            destination.put(blob_of(LARGE), io.BytesIO(LARGE))
        destination.finish(INDEX)
        return had


def test_blobs_of_another_repository_are_mounted(registry: FakeRegistry, tmp_path: Path) -> None:
    """Without transferring a byte; a blob that the other repository has lost is sent."""
    assert not _push_large(registry, tmp_path, "team/other")
    registry.elsewhere, registry.blobs = {"team/other": registry.blobs}, {}
    assert _push_large(registry, tmp_path, "team/work")
    registry.elsewhere, registry.blobs = {}, {}
    assert not _push_large(registry, tmp_path, "team/third")
    assert registry.uploads == {}
    assert registry.blobs == {blob_of(LARGE).digest: LARGE}


def test_an_unreadable_repository_does_not_prevent_a_push(registry: FakeRegistry, tmp_path: Path) -> None:
    """The blob is sent instead."""
    _push_large(registry, tmp_path, "team/other")
    registry.blobs = {}
    registry.fault = lambda request: httpx.Response(403) if b"mount" in request.url.query else None
    assert not _push_large(registry, tmp_path, "team/work")
    assert registry.blobs == {blob_of(LARGE).digest: LARGE}
