"""Blobs on their way up arrive whole, whatever happens to connections."""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import pytest
from tests.snapshots.registry.fake import FakeRegistry, blob_of

from holdfast.errors import RegistryError, RegistryUnavailable
from holdfast.snapshots.registry.http_client import HttpClient
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.upload import Upload, UploadNotes

CONTENT = bytes(range(250)) * 4  # 10 pieces of 100 bytes
BLOB = blob_of(CONTENT)


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


def _notes(folder: Path | None = None) -> UploadNotes:
    return UploadNotes(folder, Reference.parse("registry.test/team/work:one"))


def _upload(client: HttpClient, notes: UploadNotes | None = None, chunk: int = 100) -> None:
    Upload(client, BLOB, io.BytesIO(CONTENT), notes or _notes(), chunk=chunk).run()


def _requests(registry: FakeRegistry, method: str) -> int:
    return sum(each.startswith(method + " ") for each in registry.seen)


def test_small_ones_take_two_requests(registry: FakeRegistry) -> None:
    """A blob that fits into one piece is not sent in pieces."""
    _upload(registry.client(), chunk=5000)
    assert registry.blobs == {BLOB.digest: CONTENT}
    assert [each.partition(" ")[0] for each in registry.seen] == ["POST", "PUT"]


def test_large_ones_are_sent_in_pieces(registry: FakeRegistry) -> None:
    """One after the other, each saying where it belongs."""
    _upload(registry.client())
    assert registry.blobs == {BLOB.digest: CONTENT}
    assert _requests(registry, "PATCH") == 10


@pytest.mark.parametrize("received", [0, 1, 57, 100])
@pytest.mark.parametrize("piece", [0, 4, 9])
def test_an_upload_resumes_where_it_was_cut(registry: FakeRegistry, piece: int, received: int) -> None:
    """At the byte that the registry names, also in the middle of a piece; nothing is sent twice."""
    sent: list[int] = []

    def fault(request: httpx.Request) -> Exception | None:
        if request.method == "PATCH":
            sent.append(len(request.content))
            if len(sent) == piece + 1:
                sent[-1] = received
                return registry.cut(request, received)
        return None

    registry.fault = fault
    _upload(registry.client())
    assert registry.blobs == {BLOB.digest: CONTENT}
    # A registry says of one byte what it says of none; then the piece is refused, and all is sent anew.
    assert sum(sent) == 1000 if (piece, received) != (0, 1) else _requests(registry, "POST") == 2


def test_an_upload_resumes_after_a_kill(registry: FakeRegistry, tmp_path: Path) -> None:
    """A second process continues, from the notes in a folder."""

    class Killed(BaseException):
        pass

    def kill(request: httpx.Request) -> None:
        if request.method == "PATCH" and request.headers["content-range"].startswith("600-"):
            raise Killed

    registry.fault = kill
    with pytest.raises(Killed):
        _upload(registry.client(), _notes(tmp_path))
    registry.fault, registry.seen = lambda _request: None, []
    _upload(registry.client(), _notes(tmp_path))
    assert registry.blobs == {BLOB.digest: CONTENT}
    assert (_requests(registry, "POST"), _requests(registry, "PATCH")) == (0, 4)
    assert list(tmp_path.iterdir()) == []


def test_a_lost_upload_is_restarted(registry: FakeRegistry, tmp_path: Path) -> None:
    """Registries forget, and are restarted."""
    _notes(tmp_path).keep(BLOB.digest, "https://registry.test/v2/team/work/blobs/uploads/forgotten")
    forgets = [3]

    def fault(request: httpx.Request) -> None:
        if request.method == "PATCH":
            forgets[0] -= 1
            if forgets[0] == 0:
                registry.uploads.clear()

    registry.fault = fault
    _upload(registry.client(), _notes(tmp_path))
    assert registry.blobs == {BLOB.digest: CONTENT}
    assert list(tmp_path.iterdir()) == []


def test_a_lost_answer_does_not_lose_the_blob(registry: FakeRegistry) -> None:
    """If the last request arrived, it is not sent again."""

    def fault(request: httpx.Request) -> Exception | None:
        if request.method == "PUT":
            registry.fault = lambda _request: None
            registry.handle(request)
            return httpx.ReadError("reset")
        return None

    registry.fault = fault
    _upload(registry.client())
    assert registry.blobs == {BLOB.digest: CONTENT}
    assert _requests(registry, "POST") == 1


def test_an_upload_gives_up_in_the_end(registry: FakeRegistry) -> None:
    """After a number of losses without progress, not after that number of losses."""
    lost = [0]

    def every_other(request: httpx.Request) -> Exception | None:
        lost[0] += request.method == "PATCH"
        return httpx.WriteError("reset") if request.method == "PATCH" and lost[0] % 2 else None

    registry.fault = every_other
    _upload(registry.client())
    assert registry.blobs == {BLOB.digest: CONTENT}
    registry.fault = lambda request: httpx.WriteError("reset") if request.method == "PATCH" else None
    registry.blobs.clear()
    with pytest.raises(RegistryUnavailable, match="the connection was lost"):
        _upload(registry.client())


def test_a_registry_without_pieces_gets_it_whole(registry: FakeRegistry) -> None:
    """Some take none."""
    registry.fault = lambda request: httpx.Response(405) if request.method == "PATCH" else None
    _upload(registry.client())
    assert registry.blobs == {BLOB.digest: CONTENT}


def test_a_registry_can_want_larger_pieces(registry: FakeRegistry) -> None:
    """It says how large they have to be."""

    def fault(request: httpx.Request) -> httpx.Response | None:
        if request.method == "POST":
            registry.uploads["big"] = bytearray()
            where = {"Location": "/v2/team/work/blobs/uploads/big", "OCI-Chunk-Min-Length": "300"}
            return httpx.Response(202, headers=where)
        return None

    registry.fault = fault
    _upload(registry.client())
    assert (_requests(registry, "PATCH"), registry.blobs) == (4, {BLOB.digest: CONTENT})


def test_other_bytes_are_not_taken_for_it(registry: FakeRegistry) -> None:
    """A file that changed on the way is an error after a bounded number of tries."""
    changed = b"!" * len(CONTENT)
    with pytest.raises(RegistryError, match=r"it does not take sha256:.*DIGEST_INVALID"):
        Upload(registry.client(), BLOB, io.BytesIO(changed), _notes(), chunk=100).run()
    with pytest.raises(RegistryError, match="the file has shrunk"):
        Upload(registry.client(), BLOB, io.BytesIO(CONTENT[:-1]), _notes(), chunk=100).run()
    assert registry.blobs == {}


def test_an_upload_is_sent_to_no_open_line(registry: FakeRegistry) -> None:
    """A registry cannot have it sent elsewhere without TLS."""
    where = {"Location": "http://elsewhere.test/upload"}
    registry.fault = lambda _request: httpx.Response(202, headers=where)
    with pytest.raises(RegistryError, match="not encrypted"):
        _upload(registry.client())


def test_a_missing_repository_is_reported(registry: FakeRegistry) -> None:
    """Some registries do not make any automatically."""
    registry.fault = lambda request: httpx.Response(404) if request.method == "POST" else None
    with pytest.raises(RegistryError, match=r"it does not take sha256:.* \(404\)") as raised:
        _upload(registry.client())
    assert "does the repository exist" in raised.value.hint
