"""Upload of one blob into a repository, in pieces if it is large, resumed where a connection was lost.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pushing-blobs. The registry
is asked how far it has come; one that cannot tell, or has lost the upload, gets the blob from its beginning.
The next process can resume an upload by a file named by a digest of where it goes (`UploadNotes`). The file
is removed when the upload is done, and holds no credentials.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import httpx

from holdfast.base import private_files
from holdfast.errors import RegistryError
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.registry import registry_failures
from holdfast.snapshots.registry.authorization import push
from holdfast.snapshots.registry.http_client import HttpClient
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.registry_failures import PassingFailure

CHUNK = 16 << 20
"""Bytes sent in one request, and held in memory during it."""
MAX_CHUNK = 256 << 20
"""The largest minimum per request that a registry can demand."""
MAX_LOST = 3
"""How often one blob is restarted."""
_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,15})")
_HINTS = {
    404: "does the repository exist? Some registries require it to be created first",
    413: "a proxy in front of the registry limits the size of requests",
}
_BINARY = {"Content-Type": "application/octet-stream"}
KEPT_SECONDS = 7 * 24 * 3600
"""Registries forget an upload after a week by default."""
MAX_NOTE = 1 << 16


class _Lost(Exception):
    """The registry does not know the upload, or no longer does."""


@dataclass
class _Place:
    """The state of an upload: its address, the bytes arrived, the least bytes per request."""

    url: httpx.URL
    offset: int = 0
    least: int = 0


class Upload:
    """The upload of one blob.

    `data` is at its first byte and can be read again from any position (it is seekable).
    """

    def __init__(
        self,
        client: HttpClient,
        blob: BlobDescriptor,
        data: BinaryIO,
        notes: UploadNotes,
        *,
        chunk: int = CHUNK,
    ) -> None:
        self._client, self._blob, self._data, self._notes = client, blob, data, notes
        self._start = data.tell()
        self._chunk = chunk
        self._scopes = [push(client.reference.repository)]
        self._in_pieces = True
        self._accepted = 0

    def run(self) -> None:
        """Send the blob.

        Raises:
            RegistryUnavailable, RegistryDenied, RegistryError: it did not arrive.
        """
        patience, failures, lost = self._client.patience, 0, 0
        place = self._left()
        while True:
            before = self._accepted
            try:
                place = place or self._begin()
                if self._go_on(place):
                    self._notes.drop(self._blob.digest)
                    return
            except _Lost as loss:
                lost += 1
                self._notes.drop(self._blob.digest)
                if lost > MAX_LOST:
                    raise self._failed(str(loss)) from loss
                place = None
            except PassingFailure as passing:
                failures = failures + 1 if self._accepted == before else 1
                if failures >= patience.attempts:
                    raise self._client.unavailable(passing) from passing
                patience.sleep(patience.pause(failures, passing))
                if self._is_there():
                    self._notes.drop(self._blob.digest)
                    return
                place = self._ask(place) if place else None

    def _left(self) -> _Place | None:
        """Return the state that another process left, if the registry still knows it."""
        location = self._notes.location(self._blob.digest)
        if location is None:
            return None
        try:
            return self._ask(_Place(self._client.checked(location)))
        except RegistryError:
            self._notes.drop(self._blob.digest)
            return None

    def _ask(self, place: _Place) -> _Place | None:
        """Return how far it has come; None if the registry does not know it."""
        answer = self._client.request("GET", place.url, self._scopes)
        come = _RANGE.fullmatch(answer.headers.get("range", ""))
        if answer.status_code not in (202, 204) or come is None:
            return None
        last = int(come[1])
        # One byte and zero bytes look alike; as pieces are larger, it is zero.
        offset = last + 1 if last else 0
        if offset > self._blob.size:
            return None
        return _Place(self._location(answer, place.url), offset, place.least)

    def _begin(self) -> _Place:
        url = self._client.url("blobs/uploads/")
        answer = self._client.request("POST", url, self._scopes)
        if answer.status_code != 202:
            raise self._refused(answer)
        least = answer.headers.get("oci-chunk-min-length", "")
        wanted = int(least) if least.isascii() and least.isdigit() and len(least) < 12 else 0
        return _Place(self._location(answer, url), 0, min(wanted, MAX_CHUNK))

    def _go_on(self, place: _Place) -> bool:
        """Send the missing bytes; return True when the upload is complete."""
        size, chunk = self._blob.size, max(self._chunk, place.least)
        if size <= chunk or not self._in_pieces:
            if place.offset:
                raise _Lost("it requires pieces, but refuses them")
            return self._complete(place, self._read(0, size) if size <= chunk else self._stream(chunk))
        while place.offset < size:
            piece = self._read(place.offset, min(chunk, size - place.offset))
            part = {"Content-Range": f"{place.offset}-{place.offset + len(piece) - 1}"}
            answer = self._send("PATCH", place.url, piece, len(piece), part)
            if answer.status_code != 202:
                # A registry that takes no pieces says so at the first; later, it has forgotten its data.
                self._in_pieces = place.offset > 0
                raise _Lost(registry_failures.said(answer))
            come = _RANGE.fullmatch(answer.headers.get("range", ""))
            place.url = self._location(answer, place.url)
            place.offset = int(come[1]) + 1 if come else place.offset + len(piece)
            if place.offset > size:
                raise _Lost("it reports more bytes than were sent")
            self._notes.keep(self._blob.digest, str(place.url))
        return self._complete(place, b"")

    def _complete(self, place: _Place, rest: bytes | Iterator[bytes]) -> bool:
        url = place.url.copy_merge_params({"digest": self._blob.digest})
        size = self._blob.size - place.offset
        answer = self._send("PUT", url, rest, size, {"Content-Length": str(size)})
        if answer.status_code in (400, 404, 416):
            raise _Lost(registry_failures.said(answer))
        if answer.status_code not in (201, 204):
            raise self._refused(answer)
        return True

    def _send(
        self,
        method: str,
        url: httpx.URL,
        body: bytes | Iterator[bytes],
        size: int,
        headers: dict[str, str],
    ) -> httpx.Response:
        sending = self._client.once(method, url, self._scopes, headers=_BINARY | headers, content=body)
        answer = self._client.read(sending)
        if answer.is_success:
            self._accepted += size
        return answer

    def _is_there(self) -> bool:
        """Return whether the blob arrived and only the answer was lost."""
        url = self._client.url(f"blobs/{self._blob.digest}")
        return self._client.request("HEAD", url, self._scopes).status_code == 200

    def _stream(self, piece: int) -> Iterator[bytes]:
        for offset in range(0, self._blob.size, piece):
            yield self._read(offset, min(piece, self._blob.size - offset))

    def _read(self, offset: int, size: int) -> bytes:
        self._data.seek(self._start + offset)
        piece = self._data.read(size)
        if len(piece) != size:
            raise self._failed("the file has shrunk")
        return piece

    def _location(self, answer: httpx.Response, base: httpx.URL) -> httpx.URL:
        location = answer.headers.get("location")
        return self._client.checked(location, base) if location else base

    def _refused(self, answer: httpx.Response) -> RegistryError:
        return self._failed(registry_failures.said(answer), _HINTS.get(answer.status_code, ""))

    def _failed(self, why: str, hint: str = "") -> RegistryError:
        host = self._client.reference.host
        return RegistryError(
            f"cannot push to {host}: it does not take {self._blob.digest[:19]}… ({why})", hint=hint
        )


class UploadNotes:
    """The uploads in progress to one repository; without a folder, they are not remembered."""

    def __init__(self, folder: Path | None, reference: Reference) -> None:
        self.folder = folder
        self._where = f"{reference.host}/{reference.repository}"
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._forget_old(folder)

    def location(self, digest: str) -> str | None:
        """Return where the upload of a blob was left."""
        path = self._path(digest)
        if path is None:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError):
            with path.open("rb") as file:
                note = json.loads(file.read(MAX_NOTE))
            return str(note["location"]) if note["digest"] == digest else None
        return None

    def keep(self, digest: str, location: str) -> None:
        """Remember where an upload continues. It is only an aid: write failures are ignored."""
        path = self._path(digest)
        if path is not None:
            with suppress(OSError):
                text = json.dumps({"digest": digest, "location": location})
                private_files.replace(path, text, durable=False)

    def drop(self, digest: str) -> None:
        """Forget an upload that is done or lost."""
        path = self._path(digest)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{hashlib.sha256(f'{self._where}@{digest}'.encode()).hexdigest()[:32]}.json"

    def _forget_old(self, folder: Path) -> None:
        oldest = time.time() - KEPT_SECONDS
        for path in folder.glob("*"):
            with suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
