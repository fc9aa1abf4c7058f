"""The parts of bundles that the source of a move sends, on the disk of the receiver.

They lie where interrupted transfers keep theirs, under their digests, so a second attempt finds what the
first one brought. Knows nothing of what is in them; the import compares it once more.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NoReturn, Self

from holdfast.errors import BundleRefused, StoreError
from holdfast.snapshots.bundle.endpoints import DIGEST, BlobDescriptor

LEAST = 1 << 30
"""Bytes that stay free on the disk."""
LEAST_FILES = 10_000
"""Files that can still be made on it, where their number is limited."""
_BLOCK = 1 << 20


class Arrivals:
    """The folder of parts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, digest: str, size: int) -> bool:
        """Return whether a part is there in full.

        Raises:
            BundleRefused: that is not a digest.
        """
        with suppress(FileNotFoundError):
            return self._path(digest).stat().st_size == size
        return False

    def take(self, digest: str, size: int, stream: BinaryIO) -> None:
        """Store a part, the next `size` bytes of the stream, which are read in any case.

        Raises:
            BundleRefused: it does not match its digest, or ends early.
            StoreError: it cannot be written; so little would stay free.
        """
        left = _Counted(stream, size)
        try:
            self._store(digest, size, left)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"cannot write in {self._folder}: {error.strerror or error}") from error
        finally:
            left.drain()

    def _store(self, digest: str, size: int, data: _Counted) -> None:
        path = self._path(digest)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        room = os.statvfs(self._folder)
        if room.f_bavail * room.f_frsize < size + LEAST:
            raise StoreError(
                f"cannot store what arrives: less than {LEAST >> 20} MiB would stay free",
                hint=f"make room in {self._folder.parent} there",
            )
        if room.f_files and room.f_favail < LEAST_FILES:
            raise StoreError(
                f"cannot store what arrives: fewer than {LEAST_FILES} more files could be made",
                hint=f"remove files on the disk of {self._folder.parent} there",
            )
        found = hashlib.sha256()
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=f"{path.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                while block := data.read(_BLOCK):
                    found.update(block)
                    file.write(block)
            if data.left or f"sha256:{found.hexdigest()}" != digest:
                raise BundleRefused(f"cannot import: {digest[:19]}… does not match its digest")
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _path(self, digest: str) -> Path:
        if not DIGEST.fullmatch(digest):
            raise BundleRefused("cannot import: a part of it has no valid digest")
        return self._folder / digest.partition(":")[2]


class Arrived:
    """An origin whose parts have all been sent before; `Resuming` finds them in their folder."""

    def __init__(self, name: str, index: bytes) -> None:
        self.name = name
        self._index = index

    def index(self) -> bytes:
        """Return the index, which came last."""
        return self._index

    def open(self, blob: BlobDescriptor, start: int = 0) -> NoReturn:
        """Refuse: what is not in the folder was not sent.

        Raises:
            BundleRefused: always.
        """
        raise BundleRefused(f"cannot import: {blob.digest[:19]}… of it was not sent")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Do nothing: there is nothing to close."""


class _Counted:
    """The next bytes of a stream, up to a number."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self.left = size

    def read(self, most: int) -> bytes:
        block = self._stream.read(min(most, self.left))
        self.left -= len(block)
        return block

    def drain(self) -> None:
        while self.left and self.read(_BLOCK):
            pass
