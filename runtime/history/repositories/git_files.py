"""Reads the few files of a Git repository that describe its state, and the tree of a commit from its objects,
loose or packed. Runs no programs, follows no links.
"""

from __future__ import annotations

import errno
import heapq
import os
import re
import stat
import zlib
from contextlib import suppress
from pathlib import Path

from holdfast.runtime.history.repositories import git_index
from holdfast.runtime.history.repositories.git_index import IndexEntry

MOST_HEAD = 4 << 10
"""Bytes of HEAD, of a reference, or of a `.git` that is a file."""
MOST_PACKED = 8 << 20
"""Bytes of packed-refs."""
MOST_INDEX = 16 << 20
"""Bytes of an index; that of 100 000 files takes about 10 MiB."""
MOST_ENTRIES = 50_000
_COMMIT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[!-~]{1,250}")
_MOST_PACKS = 1000
_BEGINNING = 512
"""Bytes of a commit that are looked at: it begins with its tree."""
_PACKED = 4096
_COMMIT = 1  # gitformat-pack(5)
_INDEX = b"\xfftOc\x00\x00\x00\x02"


def read_head(data: bytes) -> tuple[str | None, str | None]:
    """Return the reference and the commit that HEAD names, one of them None; both if it is not understood."""
    text = _text(data)
    if text.startswith("ref:"):
        reference = text[4:].strip()
        safe = _REFERENCE.fullmatch(reference) and ".." not in reference and "//" not in reference
        return (reference if safe else None), None
    return None, read_commit(data)


def read_commit(data: bytes) -> str | None:
    """Return the commit that a reference holds."""
    text = _text(data)
    return text if _COMMIT_NAME.fullmatch(text) else None


def read_gitdir(data: bytes) -> str | None:
    """Return the folder that a `.git` of a worktree or submodule names."""
    text = _text(data)
    place = text.removeprefix("gitdir:").strip()
    return place if text.startswith("gitdir:") and place and "\0" not in place else None


def find_packed(data: bytes, reference: str) -> str | None:
    """Return the commit of a reference in packed-refs."""
    if len(data) > MOST_PACKED:
        return None
    found = re.search(rb"(?m)^([0-9a-f]{40,64}) " + re.escape(reference.encode()) + rb"$", data)
    return read_commit(found[1]) if found else None


def read_index(data: bytes) -> list[IndexEntry] | None:
    """Return the tracked files of an index of version 2 or 3; None for other, damaged or too long ones."""
    found = git_index.entries(data, MOST_ENTRIES, (2, 3)) if len(data) <= MOST_INDEX else None
    kinds = (git_index.FILE, git_index.LINK)  # others are repositories and sparse folders
    return None if found is None else [one for one in found if one.kind in kinds and not one.left_out]


def _text(data: bytes) -> str:
    return data[:MOST_HEAD].decode("utf-8", "replace").strip() if len(data) <= MOST_HEAD else ""


def tree_of_commit(common: Path, commit: str) -> bytes | None:
    """Return the digest of a commit's tree; None if it is unknown."""
    objects = common / "objects"
    with suppress(OSError, ValueError, IndexError, OverflowError, zlib.error):
        digest = bytes.fromhex(commit)
        begin = _loose(objects / commit[:2] / commit[2:])
        if begin is None:
            begin = _packed(objects / "pack", digest)
        if begin is not None and begin.startswith(b"tree "):
            tree = bytes.fromhex(begin[5 : 5 + len(commit)].decode("ascii"))
            return tree if len(tree) == len(digest) else None  # it may be cut, or have blanks
    return None


def _opened(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def _loose(path: Path) -> bytes | None:
    try:
        descriptor = _opened(path)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        head, _, body = zlib.decompressobj().decompress(file.read(_PACKED), _BEGINNING).partition(b"\0")
    return body if head.startswith(b"commit ") else None


def _packed(folder: Path, digest: bytes) -> bytes | None:
    try:
        with os.scandir(folder) as found:
            names = (each.name for each in found if each.name.endswith(".idx"))
            first = heapq.nsmallest(_MOST_PACKS, names)  # of however many
    except OSError:
        return None
    for path in map(folder.joinpath, first):
        with os.fdopen(_opened(path), "rb") as file:
            offset = _offset(file.fileno(), digest)
        if offset is not None:
            with os.fdopen(_opened(path.with_suffix(".pack")), "rb") as pack:
                return _whole(os.pread(pack.fileno(), _PACKED, offset))
    return None


def _offset(index: int, digest: bytes) -> int | None:
    """Return the position of an object in the pack of an index; None if it is not in it."""

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(os.pread(index, size, at), "big")

    if os.pread(index, 8, 0) != _INDEX:
        return None
    low = number(8 + 4 * (digest[0] - 1)) if digest[0] else 0
    high, total, width = number(8 + 4 * digest[0]), number(8 + 4 * 255), len(digest)
    names = 8 + 4 * 256
    while low < high:
        middle = (low + high) // 2
        found = os.pread(index, width, names + middle * width)
        if found == digest:
            offsets = names + total * (width + 4)
            place = number(offsets + 4 * middle)
            return number(offsets + 4 * total + 8 * (place & 0x7FFFFFFF), 8) if place >> 31 else place
        low, high = (middle + 1, high) if found < digest else (low, middle)
    return None


def _whole(data: bytes) -> bytes | None:
    """Return the beginning of a commit that is stored whole."""
    if data[0] >> 4 & 7 != _COMMIT:
        return None
    at = 0
    while data[at] & 0x80:
        at += 1
    return zlib.decompressobj().decompress(data[at + 1 :], _BEGINNING)
