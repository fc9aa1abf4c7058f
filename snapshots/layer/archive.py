"""The copy of a layer as the engine reads it: a tar archive in which special names mark deletions.

Pure except for reading the copy. The form is the image format's: `.wh.NAME` hides a name of the layers
below, `.wh..wh..opq` everything that a directory has there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tarfile
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.layers import apart, file_entry
from holdfast.snapshots.checkpointer.layers.file_entry import FileEntry

END = bytes(2 * tarfile.BLOCKSIZE)
"""The end of an archive."""
_PIECE = 1 << 20
_HEADERS = 4 * tarfile.BLOCKSIZE
"""Bytes that describe most files."""
_TYPES = {
    file_entry.FILE: tarfile.REGTYPE,
    file_entry.DIRECTORY: tarfile.DIRTYPE,
    file_entry.LINK: tarfile.SYMTYPE,
    file_entry.FIFO: tarfile.FIFOTYPE,
    file_entry.CHARACTER: tarfile.CHRTYPE,
    file_entry.BLOCK: tarfile.BLKTYPE,
}


class NewLayer(ABC):
    """A layer as an archive of known size, read once. `digest` is known once all of it was read."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.size = 0

    @abstractmethod
    def _pieces(self) -> Iterator[bytes]:
        """Yield the archive."""

    @property
    def digest(self) -> str:
        """The layer's name in an image: a digest of the whole archive."""
        return f"sha256:{self._digest.hexdigest()}"

    def read(self) -> Iterator[bytes]:
        """Yield the archive, piece by piece; once.

        Raises:
            OSError: its source cannot be read.
        """
        for piece in self._pieces():
            self._digest.update(piece)
            yield piece

    def read_as(self, name: str) -> Iterator[bytes]:
        """Yield it as a member of another archive, likewise."""
        yield _member(name, self.size)
        yield from self.read()
        yield bytes(_padded(self.size) - self.size)


class CopiedFiles:
    """The files in the copy of a layer. `entries` are in an archive, `apart` holds properties that an
    archive cannot express.

    `described` are the rows about the layer, also about files whose contents only the image below has.
    `omitted` is the number of further ones there, and the bytes of their contents in an archive.
    """

    def __init__(self, folder: Path) -> None:
        """List them.

        Raises:
            OSError: the list cannot be read.
        """
        self.folder = folder
        all_of_it, facts = file_entry.read(folder / file_entry.ENTRIES)
        left = {all_of_it[position].path for position in facts.get(file_entry.LEFT, ())}
        count, size = facts.get(file_entry.OMITTED, (0, 0))
        self.omitted = int(count), int(size)
        self.described, self.apart = apart.divided(all_of_it)
        self.entries = [item for item in self.described if item.path not in left]

    def move(self, folder: Path) -> None:
        """Move them to a folder.

        Raises:
            OSError: they cannot be moved.
        """
        for name in (file_entry.ENTRIES, file_entry.DATA):
            (self.folder / name).rename(folder / name)
        self.folder = folder

    def opened(self) -> BinaryIO:
        """Open the contents of all files."""
        return (self.folder / file_entry.DATA).open("rb")

    def digest(self, path: str, limit: int) -> tuple[int, str]:
        """Return size and digest of the regular file at an absolute path, like `beneath.digest`.

        Raises:
            FileNotFoundError: it is not in this layer; the layers below can have it.
            FileTooLarge: it has more than `limit` bytes.
            OSError: it is not a file, is hidden or kept apart, or cannot be read.
        """
        item = self._names.get(path.strip("/"))
        if item is None:
            raise FileNotFoundError(path)
        if item.kind != file_entry.FILE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        if item.size > limit:
            raise beneath.FileTooLarge(item.size)
        with self.opened() as data:
            content = b"".join(_content(item, data.fileno()))[: item.size]
        return item.size, hashlib.blake2b(content, digest_size=beneath.DIGEST_SIZE).hexdigest()

    @cached_property
    def _names(self) -> dict[str, FileEntry]:
        return {item.path: item for item in self.entries}


class LayerArchive(NewLayer):
    """The copy of a layer, whose archive is generated while it is read.

    `whole` is about its size together with the files that only the image below has. `unpacked` are the bytes
    of its files as an engine counts them.
    """

    def __init__(self, folder: Path) -> None:
        """List the layer's folder.

        Raises:
            OSError: it cannot be read.
        """
        super().__init__()
        self.files = CopiedFiles(folder)
        self.apart = self.files.apart
        self._headers = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as this
        self._members: list[tuple[int, FileEntry | None]] = []
        self.size = len(END)
        count, size = self.files.omitted
        described = [_HEADERS + _padded(item.size) for item in self.files.described]
        self.whole = count * _HEADERS + size + sum(described)
        self.unpacked = 0
        for header, content in _members(self.files.entries):
            self._headers.write(header)
            self._members.append((len(header), content))
            self.size += len(header) + _padded(content.size if content else 0)
            self.unpacked += content.size + len(content.target) if content else 0

    def _pieces(self) -> Iterator[bytes]:
        self._headers.seek(0)
        with self._headers as headers, self.files.opened() as data:
            for length, content in self._members:
                yield headers.read(length)
                if content is not None:
                    yield from _content(content, data.fileno())
        yield END


def _content(item: FileEntry, data: int) -> Iterator[bytes]:
    """Yield the content of a file: zeros for its holes."""
    at, place = 0, item.offset
    for begin, length in item.pieces():
        yield from _zeros(begin - at)
        for done in range(0, length, _PIECE):
            yield os.pread(data, min(_PIECE, length - done), place + done)
        at, place = begin + length, place + length
    yield from _zeros(_padded(item.size) - at)


def _zeros(count: int) -> Iterator[bytes]:
    for done in range(0, count, _PIECE):
        yield bytes(min(_PIECE, count - done))


def _members(entries: list[FileEntry]) -> Iterator[tuple[bytes, FileEntry | None]]:
    """Yield headers in the order of the archive, each with the file whose content follows it, if one does."""
    first: dict[str, str] = {}
    for item in entries:
        if item.kind == file_entry.WHITEOUT:
            above, slash, name = item.path.rpartition("/")
            yield _header(tarfile.TarInfo(f"{above}{slash}{file_entry.DELETES}{name}")), None
            continue
        made = _described(item)
        if item.group and item.group in first:
            made.type, made.linkname = tarfile.LNKTYPE, first[item.group]
            yield _header(made), None
            continue
        if item.group:
            first[item.group] = item.path
        made.size = item.size
        yield _header(made), item
        if item.opaque:
            yield _header(tarfile.TarInfo(f"{item.path}/{file_entry.HIDES}")), None


def _described(item: FileEntry) -> tarfile.TarInfo:
    made = tarfile.TarInfo(item.path)
    made.type = _TYPES[item.kind]
    made.mode, made.uid, made.gid = item.mode, item.uid, item.gid
    made.linkname = item.target
    made.devmajor, made.devminor = os.major(item.device), os.minor(item.device)
    made.pax_headers = {"mtime": _seconds(item.mtime)}
    unsaid = apart.unsaid(item)
    for name, value in item.attributes.items():
        if name in unsaid:
            continue
        # Bytes that are not text survive this only as escapes.
        as_text = value.encode("latin-1").decode("utf-8", "surrogateescape")
        made.pax_headers[f"SCHILY.xattr.{name}"] = as_text
    return made


def _seconds(time: int) -> str:
    """Return nanoseconds as decimal seconds."""
    seconds, rest = divmod(abs(time), 10**9)
    return f"{'-' if time < 0 else ''}{seconds}.{rest:09}"


def _header(made: tarfile.TarInfo) -> bytes:
    return made.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def document(name: str, data: bytes) -> bytes:
    """Return a small file as a member of an archive."""
    return _member(name, len(data)) + data + bytes(_padded(len(data)) - len(data))


def _member(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
