"""A registry as destination and origin of bundles, for push and pull (`bundle/endpoints.py`).

Layers go up a few at a time; manifests when everything they name is there; the tag last, so that an
incomplete bundle is never found. Repositories that had a blob are remembered (`BlobPlaces`), so that it can
be mounted instead of sent: only a cache, whose answers are checked with the registry.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import httpx

from holdfast.base import private_files
from holdfast.errors import InvalidArgument, ReferenceNotFound, RegistryDenied, RegistryError
from holdfast.snapshots.bundle import media
from holdfast.snapshots.bundle.endpoints import DIGEST, BlobDescriptor
from holdfast.snapshots.registry import registry_failures
from holdfast.snapshots.registry.authorization import pull, push
from holdfast.snapshots.registry.http_client import HttpClient
from holdfast.snapshots.registry.registry_failures import PassingFailure
from holdfast.snapshots.registry.upload import CHUNK, Upload, UploadNotes

MAX_RECONNECTS = 100
"""Most reconnects for one blob, even if each makes progress."""
_PART = re.compile(r"bytes ([0-9]{1,15})-[0-9]{1,15}/(?:[0-9]{1,15}|\*)")


class BlobReader(io.RawIOBase):
    """A reader of a blob from `start` to its size, and never further. Resumes where a connection was lost.

    Nothing is compared here: the caller does that.
    """

    def __init__(self, client: HttpClient, blob: BlobDescriptor, start: int = 0) -> None:
        """Prepare; nothing is requested before the first read."""
        self._client, self._blob = client, blob
        self._at = start
        self._failures = self._reconnects = 0
        self._rest = b""
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a part of a buffer; 0 at the end.

        Raises:
            RegistryUnavailable, RegistryDenied, RegistryError: the rest cannot be obtained.
        """
        view = memoryview(buffer).cast("B")
        while not self._rest and self._at < self._blob.size and len(view):
            self._rest = self._next()[: self._blob.size - self._at]
        taken = min(len(view), len(self._rest))
        view[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        self._at += taken
        return taken

    def close(self) -> None:
        """Close the connection."""
        if self._response is not None:
            self._response.close()
            self._response = None
        super().close()

    def _next(self) -> bytes:
        """Return some of the next bytes; nothing if the connection was lost, up to a limit."""
        try:
            if self._response is None:
                self._open()
            with self._client.passing():
                piece = next(self._pieces, b"")
            if not piece:
                raise PassingFailure("the connection was lost")
        except PassingFailure as passing:
            if self._response is not None:
                self._response.close()
                self._response = None
            self._failures += 1
            self._reconnects += 1
            patience = self._client.patience
            if self._failures >= patience.attempts or self._reconnects >= MAX_RECONNECTS:
                raise self._client.unavailable(passing) from passing
            patience.sleep(patience.pause(self._failures, passing))
            return b""
        self._failures = 0
        return piece

    def _open(self) -> None:
        url = self._client.url(f"blobs/{self._blob.digest}")
        headers = {"Range": f"bytes={self._at}-"} if self._at else {}
        response = self._client.once("GET", url, [pull(self._client.reference.repository)], headers=headers)
        self._response = response
        skipped = 0
        if response.status_code == 206:
            part = _PART.fullmatch(response.headers.get("content-range", ""))
            if part is None or int(part[1]) != self._at:
                raise RegistryError(
                    f"cannot pull from {self._client.reference.host}: it sends a different part"
                )
        elif response.status_code == 200:
            skipped = self._at  # it does not support ranges
        else:
            answer = self._client.read(response)
            self._response = None
            if answer.status_code == 404:
                raise ReferenceNotFound(
                    f"cannot pull {self._client.reference}: the registry has no {self._blob.digest[:19]}…",
                    hint="push it again: parts of it were removed there",
                )
            raise RegistryError(f"cannot pull {self._client.reference}: {registry_failures.said(answer)}")
        # As data arrives: pieces of a fixed size would be lost in part with their connection.
        self._pieces = _without(response.iter_raw(), skipped)


def _without(pieces: Iterator[bytes], skipped: int) -> Iterator[bytes]:
    """Yield the bytes after this many."""
    for piece in pieces:
        if skipped < len(piece):
            yield piece[skipped:]
        skipped = max(0, skipped - len(piece))


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
LEAST_REMEMBERED = 1 << 20
"""Smallest blob remembered: a smaller one is sent as quickly as it is asked for."""
MOST_REMEMBERED = 5000
"""Blobs remembered for a registry, those seen last."""
MAX_PLACES = 4 << 20


class RegistryDestination:
    """The destination of one bundle, by reference.

    Args:
        client: the way to its registry.
        notes: a folder that remembers interrupted uploads, and the places of blobs.
        sent: called with the bytes of each blob that was missing, once it has arrived.
        chunk: bytes sent in one request.

    Raises:
        InvalidArgument: the reference has a digest, which only existing content can have.
    """

    def __init__(
        self,
        client: HttpClient,
        notes: Path | None = None,
        *,
        sent: Callable[[int], None] | None = None,
        chunk: int = CHUNK,
    ) -> None:
        self._client = client
        self.reference = client.reference.tagged()
        if self.reference.digest:
            raise InvalidArgument(
                f"cannot push to {self.reference}: its digest is computed from the content",
                hint="leave the digest out, and give a tag",
            )
        self._notes = UploadNotes(notes, self.reference)
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
        url = self._client.url(f"{kind}/{blob.digest}")
        accept = {"Accept": blob.media_type} if kind == "manifests" else {}
        if self._client.request("HEAD", url, self._scopes, headers=accept).status_code != 200:
            other = self._places.other(blob.digest, self.reference.repository)
            if kind == "manifests" or other is None or not self._mount(blob, other):
                return False
        self._places.add(blob.digest, self.reference.repository, blob.size)
        return True

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Send the part; a small one in the background. A later call can report its failure.

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
            self._client.close()  # do not wait for what is no longer needed
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def _upload(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        Upload(self._client, blob, data, self._notes, chunk=self._chunk).run()
        self._places.add(blob.digest, self.reference.repository, blob.size)
        self._sent(blob.size)

    def _mount(self, blob: BlobDescriptor, other: str) -> bool:
        """Mount the part from a repository that had it; it can have been removed there, or be invisible to
        us."""
        url = self._client.url("blobs/uploads/").copy_merge_params({"mount": blob.digest, "from": other})
        try:
            answer = self._client.request("POST", url, [*self._scopes, pull(other)])
            if answer.status_code == 202 and (location := answer.headers.get("location")):
                # It began an upload instead, which will never be sent.
                self._client.request("DELETE", self._client.checked(location, url), self._scopes)
        except RegistryDenied:
            return False
        return answer.status_code == 201

    def _put_manifest(self, name: str, media_type: str, content: bytes) -> None:
        url = self._client.url(f"manifests/{name}")
        answer = self._client.request(
            "PUT", url, self._scopes, headers={"Content-Type": media_type}, content=content
        )
        if answer.status_code not in (200, 201, 202):
            raise RegistryError(
                f"cannot push to {self.reference}: the registry does not take the manifest "
                f"({registry_failures.said(answer)})",
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
    """The origin of a bundle, by reference. Several threads can read from it."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._reference = client.reference.tagged()
        self._scopes = [pull(self._reference.repository)]

    @property
    def name(self) -> str:
        """The reference; with the digest when the index has been read."""
        return str(self._reference)

    def index(self) -> bytes:
        """Return the index the reference leads to; with a digest, only that one.

        Raises:
            ReferenceNotFound: the reference does not exist.
            RegistryError: it is not a bundle, or has another digest.
        """
        answer = self._get(self._reference.wanted, _ACCEPTED)
        digest = f"sha256:{sha256(answer.content).hexdigest()}"
        if self._reference.digest not in (None, digest):
            raise RegistryError(
                f"cannot pull {self.name}: the registry returns content with a different digest"
            )
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
            raise RegistryError(f"cannot pull {self.name}: it refers to a part without a digest")
        if media.is_manifest(blob.media_type):
            content = self._get(blob.digest, blob.media_type).content[: blob.size]
            return io.BytesIO(content[start:])
        return io.BufferedReader(BlobReader(self._client, blob, start), 1 << 18)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._client.close()

    def _get(self, name: str, accept: str) -> httpx.Response:
        url = self._client.url(f"manifests/{name}")
        answer = self._client.request(
            "GET", url, self._scopes, headers={"Accept": accept}, limit=MAX_MANIFEST
        )
        if answer.status_code == 404:
            raise ReferenceNotFound(
                f"cannot pull {self.name}: the registry does not have it",
                hint="check the tag: `holdfast push` prints it at the end",
            )
        if answer.status_code != 200:
            raise RegistryError(f"cannot pull {self.name}: {registry_failures.said(answer)}")
        return answer


class BlobPlaces:
    """The places of blobs in one registry; without a folder, they are not remembered."""

    def __init__(self, folder: Path | None, host: str) -> None:
        self._path = None if folder is None else folder / f"places-{_name_of_host(host)}.json"
        self._seen: dict[str, str] = {}
        if self._path is not None:
            with suppress(OSError, ValueError):
                with self._path.open("rb") as file:
                    found = json.loads(file.read(MAX_PLACES))
                self._seen = {str(digest): str(place) for digest, place in found.items()}

    def other(self, digest: str, repository: str) -> str | None:
        """Return another repository that had it."""
        found = self._seen.get(digest)
        return None if found == repository else found

    def add(self, digest: str, repository: str, size: int) -> None:
        """Record that this repository has it."""
        if size >= LEAST_REMEMBERED and self._seen.get(digest) != repository:
            self._seen.pop(digest, None)
            self._seen[digest] = repository

    def save(self) -> None:
        """Store the place beyond this process. Losing it costs time only."""
        if self._path is None:
            return
        kept = dict(list(self._seen.items())[-MOST_REMEMBERED:])
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.replace(self._path, json.dumps(kept), durable=False)


def _name_of_host(host: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in host)
