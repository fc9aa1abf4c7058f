"""Bundles in one folder that share their parts: an OCI image layout, and a small file for each bundle.

    NAME.holdfast         leads to one bundle: its descriptor, as index.json has it
    index.json            all of them, for tools that read image layouts
    blobs/sha256/HEX      parts, each of them once

A bundle is the file NAME.holdfast with the `blobs` next to it. One writer at a time holds the folder's
lock. Reading trusts nothing in the folder: parts are regular files, and the reader compares their bytes.
"""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from holdfast.base import locks, private_files
from holdfast.errors import BundleRefused, StoreError
from holdfast.snapshots.bundle import form, media, oci_layout
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin

_BLOCK = 1 << 20
_MODE = 0o644
_MAX_TOP = 16 << 20
"""Bytes of an index.json with the descriptors of some ten thousand bundles."""


class SharedDestination:
    """A destination that writes a bundle to `path`, and new parts next to it in its folder.

    `name` is the name tools show for the image in it.
    """

    def __init__(self, path: Path, name: str = "") -> None:
        self._path = path.absolute()
        self._name = name or path.name
        self._blobs = self._path.parent / "blobs" / "sha256"
        self._new: list[Path] = []
        self._held = ExitStack()

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return 0: the folder is complete."""
        return 0

    def has(self, blob: BlobDescriptor) -> bool:
        """Return whether the folder has it, from any bundle: a part has its name once it is complete."""
        try:
            found = (self._blobs / blob.hex).lstat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == blob.size

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Write the part, unless it exists."""
        if self.has(blob):
            return
        path = self._blobs / blob.hex
        part = path.with_name(f".{blob.hex}.part")
        try:
            part.unlink(missing_ok=True)  # of a writer that was killed
            with private_files.create(part, new=True) as file:
                oci_layout.copy(data, blob.size, file)
                os.fchmod(file.fileno(), _MODE)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._unwritable(error) from error
        self._new.append(path)

    def finish(self, index: bytes) -> str:
        """Write the index and the files that lead to it; the bundle's own file comes last."""
        found = form.described(media.INDEX, index, {oci_layout.REF: self._name})
        self.put(found, io.BytesIO(index))
        folder = self._path.parent
        top = {"schemaVersion": 2, "manifests": [found.as_dict()]}
        try:
            private_files.replace(folder / "oci-layout", oci_layout.LAYOUT, mode=_MODE)
            listed = {**top, "manifests": [*self._others(folder / "index.json"), found.as_dict()]}
            private_files.replace(folder / "index.json", form.dumps(listed), mode=_MODE)
            private_files.sync_folder(self._blobs)
            private_files.replace(self._path, form.dumps(top), mode=_MODE)
        except OSError as error:
            raise self._unwritable(error) from error
        self._new.clear()
        return str(self._path)

    def __enter__(self) -> Self:
        try:
            self._blobs.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(locks.whole_file(self._path.parent / ".lock"))
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with self._held:
            for path in self._new:
                path.unlink(missing_ok=True)

    def _others(self, path: Path) -> list[object]:
        """Return the descriptors of all other bundles; a list that cannot be read is left out."""
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            listed = json.loads(path.read_bytes()[:_MAX_TOP])["manifests"]
            return [each for each in listed if each["annotations"][oci_layout.REF] != self._name]
        return []

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot write {self._path}: {error.strerror or error}", hint="choose another place"
        )


class SharedOrigin(FileOrigin):
    """An origin that reads a bundle whose parts are next to its file."""

    def __enter__(self) -> Self:
        with self._content(self._path, form.MAX_INDEX) as stream:
            self._document = stream.read(form.MAX_INDEX)
        return self

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        """Open a part from `start`."""
        path = self._path.parent / "blobs" / "sha256" / blob.hex
        stream = self._content(path, blob.size)
        stream.seek(start)
        return stream

    def _top(self) -> bytes:
        return self._document

    def _content(self, path: Path, most: int) -> BinaryIO:
        """Open a regular file; refuse a link, a pipe or a device in its place."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            why = (
                f"{path.name[:12]}… is missing in the folder of blobs next to it"
                if path != self._path
                else "it is gone"
            )
            raise BundleRefused(
                f"cannot import {self.name}: {why}",
                hint="it shares its parts with others: copy the whole folder, not this file alone",
            ) from error
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            os.close(descriptor)
            raise self._refused(f"{path.name[:40]} does not have the expected size")
        return os.fdopen(descriptor, "rb", _BLOCK)


def destination(path: Path, name: str, *, shared: bool) -> FileDestination | SharedDestination:
    """Return the destination that writes a bundle to a file, alone or with others in its folder."""
    return SharedDestination(path, name) if shared else FileDestination(path, name)


def origin(path: Path) -> FileOrigin:
    """Return the origin that reads a file of either kind; entering it reports one that cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(1) == b"{":
            return SharedOrigin(path)
    return FileOrigin(path)
