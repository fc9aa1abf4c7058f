"""A registry as destination and origin of bundles, for push and pull (`bundle/endpoints.py`).

Layers go up a few at a time; manifests when everything they name is there; the tag last, so that an
incomplete bundle is never found.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

import httpx

from holdfast.errors import InvalidArgument, ReferenceNotFound, RegistryDenied, RegistryError
from holdfast.snapshots.bundle import media
from holdfast.snapshots.bundle.endpoints import DIGEST, BlobDescriptor
from holdfast.snapshots.registry import error_text
from holdfast.snapshots.registry.authorization import pull, push
from holdfast.snapshots.registry.blob_download import BlobReader
from holdfast.snapshots.registry.http_client import Wire
from holdfast.snapshots.registry.mount_cache import BlobPlaces
from holdfast.snapshots.registry.upload import CHUNK, Upload
from holdfast.snapshots.registry.upload_state import Notes

AT_ONCE = 3
"""Uploads at a time. Blobs uploaded besides the caller's own are in memory, up to CHUNK each."""
MAX_MANIFEST = 4 << 20
_ACCEPTED = ", ".join(
    (
        media.INDEX,
        media.MANIFEST,
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


class RegistryDestination:
    """The destination of one bundle, by reference.

    Args:
        wire: the way to its registry.
        notes: a folder that remembers interrupted uploads, and the places of blobs.
        sent: called with the bytes of each blob that was missing, once it has arrived.
        chunk: bytes sent in one request.

    Raises:
        InvalidArgument: the reference has a digest, which only existing content can have.
    """

    def __init__(
        self,
        wire: Wire,
        notes: Path | None = None,
        *,
        sent: Callable[[int], None] | None = None,
        chunk: int = CHUNK,
    ) -> None:
        self._wire = wire
        self.reference = wire.reference.tagged()
        if self.reference.digest:
            raise InvalidArgument(
                f"cannot push to {self.reference}: its digest results from what is pushed",
                hint="leave the digest away, and give a tag",
            )
        self._notes = Notes(notes, self.reference)
        self._places = BlobPlaces(notes, self.reference.host)
        self._sent = sent or (lambda _size: None)
        self._chunk = chunk
        self._scopes = [push(self.reference.repository)]
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="holdfast-push")
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._pending: list[Future[None]] = []

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return 0: a registry knows layers by their compressed form."""
        return 0

    def has(self, blob: BlobDescriptor) -> bool:
        """Return whether the registry has it in this repository, or has now mounted it from another."""
        kind = "manifests" if media.is_manifest(blob.media_type) else "blobs"
        url = self._wire.url(f"{kind}/{blob.digest}")
        accept = {"Accept": blob.media_type} if kind == "manifests" else {}
        if self._wire.request("HEAD", url, self._scopes, headers=accept).status_code != 200:
            other = self._places.other(blob.digest, self.reference.repository)
            if kind == "manifests" or other is None or not self._mount(blob, other):
                return False
        self._places.add(blob.digest, self.reference.repository, blob.size)
        return True

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Send it; a small one in the background. A later call may report its failure.

        Raises:
            RegistryError: it, or an earlier one, could not be sent.
        """
        self._check()
        if media.is_manifest(blob.media_type):
            self._settle()
            self._put_manifest(blob.digest, blob.media_type, data.read(blob.size))
        elif blob.size <= self._chunk:
            content = io.BytesIO(data.read(blob.size))
            self._room.acquire()
            upload = self._pool.submit(self._upload, blob, content)
            upload.add_done_callback(lambda _done: self._room.release())
            self._pending.append(upload)
        elif data.seekable():
            self._upload(blob, data)
        else:
            with tempfile.TemporaryFile() as spooled:
                shutil.copyfileobj(data, spooled, 1 << 20)
                spooled.seek(0)
                self._upload(blob, cast("BinaryIO", spooled))

    def finish(self, index: bytes) -> str:
        """Send the index under the tag; return the reference with the digest."""
        self._settle()
        digest = f"sha256:{sha256(index).hexdigest()}"
        self._put_manifest(self.reference.wanted, media.INDEX, index)
        self._places.save()
        return str(self.reference.pinned(digest))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self._wire.close()  # do not wait for what is no longer needed
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._wire.close()

    def _upload(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        Upload(self._wire, blob, data, self._notes, chunk=self._chunk).run()
        self._places.add(blob.digest, self.reference.repository, blob.size)
        self._sent(blob.size)

    def _mount(self, blob: BlobDescriptor, other: str) -> bool:
        """Mount it from a repository that had it; it may be gone there, or not visible to us."""
        url = self._wire.url("blobs/uploads/").copy_merge_params({"mount": blob.digest, "from": other})
        try:
            answer = self._wire.request("POST", url, [*self._scopes, pull(other)])
            if answer.status_code == 202 and (location := answer.headers.get("location")):
                # It began an upload instead, which will never be sent.
                self._wire.request("DELETE", self._wire.checked(location, url), self._scopes)
        except RegistryDenied:
            return False
        return answer.status_code == 201

    def _put_manifest(self, name: str, media_type: str, content: bytes) -> None:
        url = self._wire.url(f"manifests/{name}")
        answer = self._wire.request(
            "PUT", url, self._scopes, headers={"Content-Type": media_type}, content=content
        )
        if answer.status_code not in (200, 201, 202):
            raise RegistryError(
                f"cannot push to {self.reference}: the registry does not take the manifest "
                f"({error_text.said(answer)})",
                hint="does the registry know the OCI image format?",
            )

    def _check(self) -> None:
        """Raise an error that occurred in the background."""
        for upload in [each for each in self._pending if each.done()]:
            self._pending.remove(upload)
            upload.result()

    def _settle(self) -> None:
        """Wait for everything in progress."""
        while self._pending:
            self._pending.pop(0).result()


class RegistryOrigin:
    """The origin of a bundle, by reference. Several threads may read from it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._reference = wire.reference.tagged()
        self._scopes = [pull(self._reference.repository)]

    @property
    def name(self) -> str:
        """The reference; with the digest when the index has been read."""
        return str(self._reference)

    def index(self) -> bytes:
        """Return the index the reference leads to; with a digest, only that one.

        Raises:
            ReferenceNotFound: there is no such reference.
            RegistryError: it is not a bundle, or has another digest.
        """
        answer = self._get(self._reference.wanted, _ACCEPTED)
        digest = f"sha256:{sha256(answer.content).hexdigest()}"
        if self._reference.digest not in (None, digest):
            raise RegistryError(f"cannot pull {self.name}: the registry gives something of another digest")
        kind = answer.headers.get("content-type", "").partition(";")[0].strip()
        if kind != media.INDEX:
            raise RegistryError(
                f"cannot pull {self.name}: it is an image, not a snapshot of Holdfast",
                hint=f"`docker pull {self.name}`, and `holdfast new --image` with it",
            )
        self._reference = self._reference.pinned(digest)
        return answer.content

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        """Open the bytes of a part; those lost in transit are requested again."""
        if not DIGEST.fullmatch(blob.digest):
            raise RegistryError(f"cannot pull {self.name}: it names something by no digest")
        if media.is_manifest(blob.media_type):
            content = self._get(blob.digest, blob.media_type).content[: blob.size]
            return io.BytesIO(content[start:])
        return io.BufferedReader(BlobReader(self._wire, blob, start), 1 << 18)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._wire.close()

    def _get(self, name: str, accept: str) -> httpx.Response:
        url = self._wire.url(f"manifests/{name}")
        answer = self._wire.request("GET", url, self._scopes, headers={"Accept": accept}, limit=MAX_MANIFEST)
        if answer.status_code == 404:
            raise ReferenceNotFound(
                f"cannot pull {self.name}: the registry has nothing of that name",
                hint="is the tag right? `holdfast push` says it at its end",
            )
        if answer.status_code != 200:
            raise RegistryError(f"cannot pull {self.name}: {error_text.said(answer)}")
        return answer
