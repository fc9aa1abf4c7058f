"""Reads and writes CRIU's image files: two magic numbers, then size-prefixed messages (criu.org/Images).

Strict, because what is judged here is what CRIU will read: a file that two readers could take for different
things (other magic numbers, a message cut short, fields or values this version does not know) is refused.
`ImageFolder` is the images of a snapshot: their messages, and a few bytes of the memory in them.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from pycriu.images import (
    core_pb2,
    fdinfo_pb2,
    fs_pb2,
    ghost_file_pb2,
    inventory_pb2,
    memfd_pb2,
    mm_pb2,
    pagemap_pb2,
    pstree_pb2,
    remap_file_path_pb2,
    seccomp_pb2,
    tcp_stream_pb2,
    tty_pb2,
)
from pycriu.images.magic import by_name

from holdfast.snapshots.checkpointer.record import ImagesUnreadable, page_chain
from holdfast.snapshots.checkpointer.record.earlier_names import parted
from holdfast.snapshots.checkpointer.record.memory import ImageMemory
from holdfast.snapshots.checkpointer.record.page_chain import IN_PARENT, PAGE, PRESENT

MAX_BYTES = 64 << 20
"""Of one image that is read as a whole. 100 000 open sockets, or a million parts of memory, need less."""
_HEAD_BYTES = 1 << 20
_SIZE = struct.Struct("<I")
# The message each image consists of, and its magic number, by its name without the number. Images with other
# data between the messages are not for this module; of those in _PAYLOAD only the first message is read.
_MESSAGES: dict[str, tuple[str, Any]] = {
    "core": ("CORE", core_pb2.core_entry),
    "fdinfo": ("FDINFO", fdinfo_pb2.fdinfo_entry),
    "files": ("FILES", fdinfo_pb2.file_entry),
    "fs": ("FS", fs_pb2.fs_entry),
    "ghost-file": ("GHOST_FILE", ghost_file_pb2.ghost_file_entry),
    "ids": ("IDS", core_pb2.task_kobj_ids_entry),
    "inventory": ("INVENTORY", inventory_pb2.inventory_entry),
    "memfd": ("MEMFD_INODE", memfd_pb2.memfd_inode_entry),
    "mm": ("MM", mm_pb2.mm_entry),
    "pagemap": ("PAGEMAP", pagemap_pb2.pagemap_entry),
    "pstree": ("PSTREE", pstree_pb2.pstree_entry),
    "remap-fpath": ("REMAP_FPATH", remap_file_path_pb2.remap_file_path_entry),
    "seccomp": ("SECCOMP", seccomp_pb2.seccomp_entry),
    "tty-data": ("TTY_DATA", tty_pb2.tty_data_entry),
    "tty-info": ("TTY_INFO", tty_pb2.tty_info_entry),
}
_FIRST: dict[str, Any] = {"pagemap": pagemap_pb2.pagemap_head}
"""Where the first message is of a different type."""
_PAYLOAD = frozenset({"ghost-file"})
_REFERENCES = frozenset({"fdinfo"})
"""Images of numbers of entries in files.img, where every entry is judged, whatever number it has."""
_SHORT = frozenset({"inventory"})
"""Images with their own magic number alone, without the common one before it."""
_SMALL = ("core-", "files", "ids-", "pstree")
_MAGIC_BYTES = 8
_MOST_DESCRIBED = 1 << 20
"""Bytes of a connection's description: some numbers. The contents of its queues come after that."""


def read(path: Path) -> tuple[bytes, list[Any]]:
    """Return the magic bytes and the messages; no messages if the image is missing.

    Raises:
        Unreadable: it is not an image of this kind, or CRIU could read it differently.
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            if _kind(path.stem) in _PAYLOAD:
                return parse(path.stem, stream.read(_HEAD_BYTES))
            if os.fstat(stream.fileno()).st_size > MAX_BYTES:
                raise ImagesUnreadable(f"{path.name} cannot be read (it is too large)")
            data = stream.read()
    except FileNotFoundError:
        return b"", []
    return parse(path.stem, data)


def parse(name: str, data: bytes) -> tuple[bytes, list[Any]]:
    """Parse the bytes of an image; `name` is the file's, without its suffix.

    Raises:
        Unreadable: as for `read`.
    """
    kind = _kind(name)
    try:
        magic = _magic(kind)
        if data[: len(magic)] != magic:
            raise ImagesUnreadable(f"{name}.img cannot be read (its kind or version is different)")
        return magic, _messages(kind, data, len(magic))
    except DecodeError as error:
        raise ImagesUnreadable(f"{name}.img cannot be read ({error})") from error
    except (KeyError, struct.error) as error:
        raise ImagesUnreadable(f"{name}.img cannot be read ({type(error).__name__})") from error


def write(path: Path, magic: bytes, entries: list[Any]) -> None:
    """Write an image; the inverse of `read`."""
    with path.open("wb") as stream:
        stream.write(serialized(magic, entries))


def serialized(magic: bytes, entries: list[Any]) -> bytes:
    """Return the bytes of an image."""
    payloads = [entry.SerializeToString() for entry in entries]
    return magic + b"".join(_SIZE.pack(len(payload)) + payload for payload in payloads)


def _kind(name: str) -> str:
    _, name = parted(f"{name}.img")
    name = name.removesuffix(".img")
    return name if name in _MESSAGES else name.rpartition("-")[0]


def _magic(kind: str) -> bytes:
    own = _SIZE.pack(by_name[_MESSAGES[kind][0]])
    return own if kind in _SHORT else _SIZE.pack(by_name["IMG_COMMON"]) + own


def _messages(kind: str, data: bytes, position: int) -> list[Any]:
    entries: list[Any] = []
    made, end = _FIRST.get(kind, _MESSAGES[kind][1]), len(data)
    strict = kind not in _REFERENCES
    # A session may have a hundred thousand of these: no calls but what must be.
    while position < end:
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        entry = made()
        entry.ParseFromString(data[position : position + size])
        position += size
        # Python's protobuf sets unknown values of enumerations aside, where CRIU takes them as they are. Once
        # they are dropped, the message must still have the size it had.
        if strict:
            entry.DiscardUnknownFields()
            if entry.ByteSize() != size or not entry.IsInitialized():
                raise DecodeError("it is not in CRIU's format")
        entries.append(entry)
        if kind in _PAYLOAD:
            return entries
        made = _MESSAGES[kind][1]
    if position != end:
        raise DecodeError("it is cut short")
    return entries


class ImageFolder:
    """The images in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_before: dict[str, list[Any]] = {}

    def messages(self, name: str) -> list[Any]:
        """Yield the messages of an image; none if the image is missing."""
        known = self._read_before.get(name)
        if known is not None:
            return known
        try:
            found = read(self._folder / f"{name}.img")[1]
        except OSError as error:
            raise ImagesUnreadable(f"{name}.img cannot be read ({error.strerror})") from error
        # They are described, and judged: both read these.
        if name.startswith(_SMALL):
            self._read_before[name] = found
        return found

    def numbered(self, kind: str) -> list[str]:
        """Return the names of all images of a kind that can occur more than once."""
        return sorted(path.stem for path in self._folder.glob(f"{kind}-*.img"))

    def memory(self, pid: int, start: int, size: int) -> bytes:
        """Up to `size` bytes of a process's memory from `start`, as far as they were captured."""
        head, *maps = self.messages(f"pagemap-{pid}") or [None]
        if head is None:
            return b""
        position = 0
        for one in maps:
            present = bool(one.flags & PRESENT) and not one.flags & IN_PARENT
            pages = one.nr_pages or one.compat_nr_pages
            if one.vaddr <= start < one.vaddr + pages * PAGE:
                if not present:
                    return b""
                size = min(size, one.vaddr + pages * PAGE - start)
                return self._read(f"pages-{head.pages_id}.img", position + start - one.vaddr, size)
            if present:
                position += pages * PAGE
        return b""

    def all_memory(self, pid: int) -> ImageMemory | None:
        """Return the memory of a process, to be searched; None if none of it was captured."""
        found = [*page_chain.follow(self.messages, f"pagemap-{pid}")]
        return ImageMemory((self._folder / one.file, one.parts) for one in found) if found else None

    def _read(self, name: str, position: int, size: int) -> bytes:
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(position)
                return file.read(size)
        except (OSError, OverflowError, ValueError):
            return b""


def has_unacknowledged(images: Path) -> bool:
    """Check whether any of them has data to send: not sent yet, or not acknowledged.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    return any(_unacknowledged(path) for path in images.glob("tcp-stream-*.img"))


def _unacknowledged(path: Path) -> int:
    with path.open("rb") as kept:
        kept.read(_MAGIC_BYTES)
        (size,) = _SIZE.unpack(kept.read(_SIZE.size))
        if size > _MOST_DESCRIBED:
            raise ImagesUnreadable(f"{path.name} is not in CRIU's format")
        entry = tcp_stream_pb2.tcp_stream_entry()
        entry.ParseFromString(kept.read(size))
    return int(entry.outq_len)
