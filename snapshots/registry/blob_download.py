"""Download of a blob's bytes from a registry, over as many connections as it takes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import httpx

from holdfast.errors import ReferenceNotFound, RegistryError
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.registry import registry_failures
from holdfast.snapshots.registry.authorization import pull
from holdfast.snapshots.registry.http_client import HttpClient
from holdfast.snapshots.registry.registry_failures import Passing

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
                raise Passing("the connection was lost")
        except Passing as passing:
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
                raise RegistryError(f"cannot pull from {self._client.reference.host}: it sends another part")
        elif response.status_code == 200:
            skipped = self._at  # it does not support ranges
        else:
            answer = self._client.read(response)
            self._response = None
            if answer.status_code == 404:
                raise ReferenceNotFound(
                    f"cannot pull {self._client.reference}: the registry has no {self._blob.digest[:19]}…",
                    hint="push it again: something removed parts of it",
                )
            raise RegistryError(f"cannot pull {self._client.reference}: {registry_failures.said(answer)}")
        # As data arrives: pieces of a fixed size would be lost in part with their connection.
        self._pieces = _without(response.iter_raw(), skipped)


def _without(pieces: Iterator[bytes], skipped: int) -> Iterator[bytes]:
    """Yield what comes after this many bytes."""
    for piece in pieces:
        if skipped < len(piece):
            yield piece[skipped:]
        skipped = max(0, skipped - len(piece))
