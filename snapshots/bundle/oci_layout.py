"""A bundle as one file: an OCI image layout in a tar archive, which old engines can also load.

The archive is the same for the same bundle: its members come in the order stored, without times and owners.
It appears under its name when it is complete. Reading one trusts nothing in it: members are found by their
headers and read in place, nothing is unpacked.

A pipe between two programs carries the same archive. It cannot be read twice, and the index of a bundle comes
last. So the reader keeps all of it first, in a file without a name, which is removed however this ends.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Self

from holdfast.base.bounded_tar import BoundedTar
from holdfast.errors import BundleRefused, StoreError
from holdfast.snapshots.bundle import foreign_files, form, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor

MAX_MEMBERS = form.MAX_SEGMENTS + 1000
_BLOCK = 1 << 20
_BLOB = re.compile(r"(?:\./)?blobs/sha256/([0-9a-f]{64})")
REF = "org.opencontainers.image.ref.name"
LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
LEAST_FREE = 1 << 30
"""Bytes that stay free in the folder: data from a pipe can be endless."""
_LOOK = 64
"""Blocks after which the room is looked at again."""


class FileDestination:
    """A destination that writes a bundle to a file; `name` is the name tools show for the image in it."""

    def __init__(self, path: Path, name: str = "") -> None:
        self._path = path.absolute()
        self._name = name
        self._written: set[str] = set()
        self._image: BlobDescriptor | None = None
        self._manifest = b""
        self._place: Path | None = None

    def layers_there(self, diff_ids: Sequence[str]) -> int:
        """Return 0: a file is complete."""
        return 0

    def has(self, blob: BlobDescriptor) -> bool:
        """Return whether it is in the file already."""
        return blob.digest in self._written

    def put(self, blob: BlobDescriptor, data: BinaryIO) -> None:
        """Append the part."""
        if blob.digest in self._written:
            return
        if self._image is None and blob.media_type == media.MANIFEST:
            self._image, self._manifest = blob, data.read()
            data = io.BytesIO(self._manifest)
        self._member(f"blobs/sha256/{blob.hex}", blob.size, data)
        self._written.add(blob.digest)

    def finish(self, index: bytes) -> str:
        """Write the members that lead to the others, and give the file its name."""
        found = form.described(media.INDEX, index, {REF: self._name} if self._name else {})
        self._text(f"blobs/sha256/{found.hex}", index)
        self._text("index.json", form.dumps({"schemaVersion": 2, "manifests": [found.as_dict()]}))
        self._text("manifest.json", self._for_old_engines())
        self._text("oci-layout", LAYOUT)
        try:
            self._file.write(bytes(2 * tarfile.BLOCKSIZE))
            self._show()
        except OSError as error:
            raise self._unwritable(error) from error
        return str(self._path)

    def __enter__(self) -> Self:
        try:
            self._file = self._nameless()
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()
        if self._place is not None:
            self._place.unlink(missing_ok=True)

    def _nameless(self) -> BinaryIO:
        """Open a file without a name, which leaves no trace however this ends (O_TMPFILE, open(2))."""
        folder = self._path.parent
        try:
            descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
            descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}.", suffix=".part", dir=folder)
            self._place = Path(name)
        return os.fdopen(descriptor, "wb")

    def _show(self) -> None:
        """Give the file its name; replace an earlier file of that name in one step."""
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._place is None:
            place = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
            place.unlink(missing_ok=True)
            # Only this way of linkat(2) needs no privilege; without a folder's descriptor it is link(2).
            folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.link(f"/proc/self/fd/{self._file.fileno()}", place.name, dst_dir_fd=folder)
            finally:
                os.close(folder)
            self._place = place
        self._place.replace(self._path)

    def _for_old_engines(self) -> bytes:
        """Return the manifest for `docker load` before Docker 25: config and layers by their places."""
        if self._image is None:
            return b"[]"
        manifest = form.parse(form.ImageManifest, self._manifest, "its image")
        place = "blobs/sha256/{}".format
        entry = {
            "Config": place(manifest.config.descriptor().hex),
            "RepoTags": None,
            "Layers": [place(layer.descriptor().hex) for layer in manifest.layers],
        }
        return json.dumps([entry], separators=(",", ":")).encode()

    def _text(self, name: str, data: bytes) -> None:
        self._member(name, len(data), io.BytesIO(data))

    def _member(self, name: str, size: int, data: BinaryIO) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = size, 0o644
        try:
            self._file.write(member.tobuf(tarfile.USTAR_FORMAT if size < 8 << 30 else tarfile.GNU_FORMAT))
            copy(data, size, self._file)
            self._file.write(bytes(-size % tarfile.BLOCKSIZE))
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot write {self._path}: {error.strerror or error}",
            hint="choose a different place with --output",
        )


def copy(data: BinaryIO, size: int, file: BinaryIO) -> None:
    """Copy a part of `size` bytes, piece by piece.

    Raises:
        OSError: it cannot be read or written.
    """
    left = size
    while left and (block := data.read(min(left, _BLOCK))):
        file.write(block)
        left -= len(block)
    assert left == 0, "a part is as large as its descriptor says"


class FileOrigin:
    """An origin that reads a bundle from a file."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._places: dict[str, tuple[int, int]] = {}
        self._top_place: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The path of the file."""
        return str(self._path)

    def index(self) -> bytes:
        """Return the index of the bundle: the one that index.json names."""
        top = form.parse(form.BundleIndex, self._top(), "its index.json")
        if len(top.manifests) != 1 or top.manifests[0].media_type != media.INDEX:
            raise self._refused("it does not hold exactly one snapshot")
        found = top.manifests[0].descriptor()
        if found.size > form.MAX_INDEX:
            raise self._refused("its index is too large")
        with self.open(found) as stream:
            data = stream.read(found.size + 1)
        if form.described(media.INDEX, data).digest != found.digest:
            raise self._refused("its index does not match its digest")
        return data

    def open(self, blob: BlobDescriptor, start: int = 0) -> BinaryIO:
        """Open a part from `start`."""
        place = self._places.get(blob.hex)
        if place is None:
            raise self._refused(f"{blob.digest[:19]}… is missing in it")
        offset, size = place
        return io.BufferedReader(_Window(self._path, offset + start, max(0, size - start)), _BLOCK)

    def __enter__(self) -> Self:
        try:
            with self._path.open("rb") as file:
                for number, member in enumerate(
                    BoundedTar(file, most_header=foreign_files.MAX_HEADER, seeks=True)
                ):
                    if number > MAX_MEMBERS:
                        raise self._refused("it has too many members")
                    if not member.isreg() or member.issparse():
                        continue
                    place = (member.offset_data, member.size)
                    if match := _BLOB.fullmatch(member.name):
                        self._places[match[1]] = place
                    elif member.name in ("index.json", "./index.json"):
                        self._top_place = place
        except tarfile.TarError as error:
            raise self._refused(
                f"it is not a tar archive, or truncated ({form.shown(str(error))})"
            ) from error
        except OSError as error:
            raise StoreError(f"cannot read {self.name}: {error.strerror or error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._places.clear()

    def _top(self) -> bytes:
        """Return index.json, which names the bundle."""
        if self._top_place is None:
            raise self._refused("it does not contain an index.json")
        start, size = self._top_place
        if size > form.MAX_INDEX:
            raise self._refused("its index.json is too large")
        with io.BufferedReader(_Window(self._path, start, size)) as stream:
            return stream.read(size)

    def _refused(self, why: str) -> BundleRefused:
        return BundleRefused(
            f"cannot import {self.name}: {why}",
            hint="`holdfast export SNAPSHOT FILE` makes what can be imported",
        )


class _Window(io.RawIOBase):
    """A range of a file."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        super().__init__()
        try:
            self._file = path.open("rb", buffering=0)
            self._file.seek(start)
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: self._left]
        count = self._file.readinto(view) or 0
        self._left -= count
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class PipeDestination(FileDestination):
    """A destination that writes a bundle to a descriptor, which stays the caller's.

    Written bytes cannot be taken back: left before `finish`, the archive is truncated, and is refused.
    """

    def __init__(self, descriptor: int, name: str = "") -> None:
        super().__init__(Path(f"/dev/fd/{descriptor}"), name)
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        try:
            self._file = os.fdopen(os.dup(self._descriptor), "wb")
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def _show(self) -> None:
        self._file.flush()

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot write the bundle to a pipe: {error.strerror or error}",
            hint="check the output of the program that reads the pipe",
        )


class PipeOrigin(FileOrigin):
    """An origin that reads a bundle from a descriptor; `folder` has room for all of it."""

    def __init__(self, descriptor: int, folder: Path) -> None:
        super().__init__(Path(f"/dev/fd/{descriptor}"))
        self._descriptor, self._folder = descriptor, folder
        self._kept: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "the data from the pipe"

    def __enter__(self) -> Self:
        try:
            self._kept = tempfile.TemporaryFile(dir=self._folder, buffering=0)
            self._path = Path(f"/proc/self/fd/{self._kept.fileno()}")
            for number in count():
                block = os.read(self._descriptor, _BLOCK)
                if not block:
                    break
                if number % _LOOK == 0:
                    self._check_room()
                left = memoryview(block)
                while left:
                    left = left[os.write(self._kept.fileno(), left) :]
            return super().__enter__()
        except OSError as error:
            self._discard()
            raise StoreError(f"cannot read the bundle from a pipe: {error.strerror or error}") from error
        except BaseException:
            self._discard()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, where)
        self._discard()

    def _check_room(self) -> None:
        room = os.statvfs(self._folder)
        if room.f_bavail * room.f_frsize < LEAST_FREE:
            raise StoreError(
                f"cannot read the bundle from a pipe: less than {LEAST_FREE >> 20} MiB would stay free",
                hint=f"it is kept in {self._folder} first: make room there",
            )

    def _discard(self) -> None:
        if self._kept is not None:
            self._kept.close()
