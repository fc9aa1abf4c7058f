"""An origin that stores parts on the disk as they arrive, so that an interrupted transfer can resume.

    downloads/HEX         a complete part
    downloads/HEX.part    an incomplete one

Parts are named by their digests, so any later attempt can use what an earlier one left. They are removed
when the bundle has been imported, or after a week without use. Some parts of memory stay: the next bundle
can have the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from holdfast.errors import BundleRefused, StoreError
from holdfast.snapshots.bundle import media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor, BundleOrigin

KEPT = 7 * 86400.0
"""Seconds a part is kept after the last write to it."""
AT_ONCE = 3
"""Parts that are fetched at a time."""
_BLOCK = 1 << 20


class Resuming:
    """A second origin, cached in a folder, and entered and left with this one."""

    def __init__(self, origin: BundleOrigin, folder: Path) -> None:
        self._origin = origin
        self._folder = folder
        self._used: dict[Path, bool] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="holdfast-fetch")
        self._fetching: list[Future[None]] = []
        self._left = False

    @property
    def name(self) -> str:
        """The name of the other origin."""
        return self._origin.name

    def index(self) -> bytes:
        """Return the other origin's index: it is small, and can change."""
        return self._origin.index()

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        """Open a part, which is complete here when this returns.

        Raises:
            BundleRefused: the data received does not match.
            StoreError: it cannot be written. Errors of the other origin keep what arrived until then.
        """
        path = self._folder / blob.hex
        try:
            if not path.exists():
                with _alone(self._folder / f"{blob.hex}.part") as part:
                    if not path.exists():
                        self._fetch(blob, part)
                        part.rename(path)
                    else:
                        part.unlink(missing_ok=True)  # recreated while waiting for the lock
            self._use(path, blob)
            file = path.open("rb")
            file.seek(start)
        except OSError as error:
            if isinstance(error, StoreError | ConnectionError) or error.errno is None:
                raise
            raise StoreError(f"cannot write to {self._folder}: {error.strerror or error}") from error
        return file

    def ahead(self, blobs: Iterable[BlobDescriptor]) -> None:
        """Begin to fetch the parts that will be opened, a few at a time. `open` reports failures."""
        self._left = False
        for blob in blobs:
            self._fetching.append(self._pool.submit(self._quietly, blob))

    def discard(self) -> None:
        """Remove the parts opened."""
        self._stop()
        for path in self._used:
            path.unlink(missing_ok=True)

    def keep_segments(self, most: int) -> None:
        """Remove the parts opened, which have been imported, except segments.

        They stay for later bundles, which can have the same: the last used ones of all, up to `most` bytes.
        """
        self._stop()
        for path, stays in self._used.items():
            if not stays:
                path.unlink(missing_ok=True)
        for _, size, path in sorted(self._whole(), reverse=True):
            most -= size
            if most < 0:
                path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make {self._folder}: {error.strerror or error}") from error
        for path in self._folder.iterdir():
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - KEPT:
                    path.unlink()
        self._origin.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._left = True
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
        # Fetches that are no longer awaited end with the connection.
        self._origin.__exit__(kind, error, where)
        self._pool.shutdown(wait=True)
        if kind is not None and issubclass(kind, BundleRefused):
            self.discard()  # the stored part could be the wrong one
        with suppress(OSError):
            self._folder.rmdir()  # only if it is empty

    def _stop(self) -> None:
        """End the fetches that were begun ahead."""
        self._left = True
        for fetching in self._fetching:
            fetching.cancel()
        wait(self._fetching)
        self._fetching.clear()

    def _use(self, path: Path, blob: BlobDescriptor) -> None:
        self._used[path] = blob.media_type == media.SEGMENT
        with suppress(OSError):
            os.utime(path)

    def _whole(self) -> Iterator[tuple[float, int, Path]]:
        """Return the complete parts: the time of their last use, and their sizes."""
        for path in self._folder.iterdir():
            with suppress(OSError):
                if not path.suffix:
                    known = path.stat()
                    yield known.st_mtime, known.st_size, path

    def _quietly(self, blob: BlobDescriptor) -> None:
        # BaseExceptions end the process anyway; the rest is raised again where the part is awaited.
        with suppress(Exception):
            if not self._left:
                self.open(blob).close()

    def _fetch(self, blob: BlobDescriptor, part: Path) -> None:
        digest = hashlib.sha256()
        with part.open("r+b") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
            have = file.tell()
            if have > blob.size:
                file.truncate(0)
                file.seek(0)
                digest, have = hashlib.sha256(), 0
            if have < blob.size:
                with closing(self._origin.open(blob, have)) as stream:
                    while have <= blob.size and (block := stream.read(_BLOCK)):
                        digest.update(block)
                        file.write(block)
                        have += len(block)
        if have < blob.size:
            raise StoreError(
                f"cannot fetch {blob.digest[:19]}…: the connection ended after {have} of {blob.size} bytes",
                hint="try again: it resumes where it stopped",
            )
        if have != blob.size or f"sha256:{digest.hexdigest()}" != blob.digest:
            part.unlink()
            raise BundleRefused(
                f"cannot import: {blob.digest[:19]}… in it does not match its digest",
                hint="it is damaged, or was changed in transit: get it again",
            )


@contextmanager
def _alone(part: Path) -> Iterator[Path]:
    """Hold the lock for writing a part; wait for another process that has it."""
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The previous holder may have given it its name, or removed it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), part.stat()):
                    yield part
                    return
            if part.with_suffix("").exists():
                yield part
                return
        finally:
            os.close(descriptor)
