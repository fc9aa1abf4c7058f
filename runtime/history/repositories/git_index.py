"""Reads an index of Git (gitformat-index(5)), of versions 2 to 4, and computes its tree. Pure.

The bytes can be anything: damaged or hostile ones yield nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER, _STAT = 12, 40
_EXTENDED, _ASSUMED, _LONG = 0x4000, 0x8000, 0xFFF
_SKIPPED, _INTENDED = 0x4000, 0x2000  # of the extended flags
FOLDER, FILE, LINK, REPOSITORY = 0o040000, 0o100000, 0o120000, 0o160000
_KIND = 0o170000
_DEEPEST = 200
LONGEST_NAME = 4096
"""Bytes: Linux opens no longer path (PATH_MAX)."""
MOST_NAMES = 256 << 20
"""Bytes of all names, some 40 each. In version 4 a few bytes of the file repeat the name before."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A tracked file as it was when Git last looked: `mtime` in whole seconds, `size` modulo 2**32.

    Attributes:
        path: with `/`, beneath the working tree.
        mtime: with `nanoseconds` after it; these are 0 if Git does not keep them.
        size: of the file, or of a link's text.
        mode: kind and permissions.
        digest: of the content, as Git stores it.
        left_out: it is not in the working tree on purpose, or not to be looked at.
        intended: it is to be added, and has no content yet.
        stage: not 0 while a merge has to be decided.
    """

    path: str
    mtime: int
    size: int
    nanoseconds: int = 0
    mode: int = FILE
    digest: bytes = b""
    left_out: bool = False
    intended: bool = False
    stage: int = 0

    @property
    def kind(self) -> int:
        """Whether it is a file, a link, a repository, or a folder that is not in the working tree."""
        return self.mode & _KIND


def entries(
    data: bytes, most: int, versions: tuple[int, ...] = (2, 3, 4), digest: int = 20
) -> list[IndexEntry] | None:
    """Return the entries, at most `most`; None for an index that is damaged, split, or of an unknown
    version.

    Names that lead out of the working tree, or into Git's own folder, are not among them.

    Args:
        data: the file.
        most: more entries are None.
        versions: that are read.
        digest: bytes of a digest: 20 for SHA-1, 32 for SHA-256.
    """
    if data[:4] != b"DIRC":
        return None
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in versions or count > most:
        return None
    try:
        found = list(_entries(data, version, count, digest))
    except (IndexError, ValueError):
        return None
    return [entry for entry in found if is_beneath(entry.path)]


def is_beneath(path: str) -> bool:
    """Check that a name stays below the working tree, and outside every folder of Git's own."""
    parts = path.removesuffix("/").split("/")
    return not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


def _entries(data: bytes, version: int, count: int, digest: int) -> Iterator[IndexEntry]:
    at, previous, left = _HEADER, b"", MOST_NAMES
    fixed = _STAT + digest + 2
    for _ in range(count):
        if at + fixed > len(data):
            raise ValueError("it is cut off")
        word = [int.from_bytes(data[at + 4 * n : at + 4 * n + 4], "big") for n in range(10)]
        flags = int.from_bytes(data[at + fixed - 2 : at + fixed], "big")
        kept = data[at + _STAT : at + _STAT + digest]
        begin, more = at + fixed, 0
        if flags & _EXTENDED:
            more = int.from_bytes(data[begin : begin + 2], "big")
            begin += 2
        if version == 4:
            dropped, begin = _number(data, begin)
            end = data.index(b"\0", begin)
            if dropped > len(previous):
                raise ValueError("a name drops more characters than there are")
            previous = previous[: len(previous) - dropped] + data[begin:end]
            name, at = previous, end + 1
        else:
            end = data.index(b"\0", begin)
            name = data[begin:end]
            # Names are padded with one to eight NULs, to a multiple of eight bytes from the entry's begin.
            at += (end - at + 8) // 8 * 8
        left -= len(name)
        if len(name) > LONGEST_NAME or left < 0:
            raise ValueError("a name is too long, or all of them are")
        yield IndexEntry(
            path=name.decode("utf-8", "surrogateescape"),
            mtime=word[2],
            size=word[9],
            nanoseconds=word[3],
            mode=word[6],
            digest=kept,
            left_out=bool(flags & _ASSUMED or more & _SKIPPED),
            intended=bool(more & _INTENDED),
            stage=flags >> 12 & 3,
        )
    while at + 8 <= len(data) - digest:
        if data[at : at + 4] == b"link":
            raise ValueError("it is a split index")
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, as in a pack's offsets, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1 << 7) | data[at] & 0x7F
        if value > 1 << 32:
            raise ValueError("a number is too long")
    return value, at + 1


def tree_of(found: list[IndexEntry]) -> bytes | None:
    """Return the digest of the tree that a commit of these entries would have; None if there is none yet."""
    if any(entry.stage for entry in found):
        return None
    made: dict[bytes, object] = {}
    size = len(found[0].digest) if found else 20
    for entry in found:
        parts = entry.path.removesuffix("/").encode("utf-8", "surrogateescape").split(b"/")
        if entry.intended or len(parts) > _DEEPEST:
            return None
        folder = made
        for part in parts[:-1]:
            inner = folder.setdefault(part, {})
            if not isinstance(inner, dict):
                return None
            folder = inner
        folder[parts[-1]] = entry
    return _tree(made, "sha256" if size == 32 else "sha1")


def _tree(folder: dict[bytes, object], algorithm: str) -> bytes:
    lines = []
    for name, inner in folder.items():
        if isinstance(inner, IndexEntry):
            mode, digest = inner.mode, inner.digest
        else:
            assert isinstance(inner, dict)
            mode, digest = FOLDER, _tree(inner, algorithm)
        key = name + b"/" if mode & _KIND == FOLDER else name
        lines.append((key, b"%o %s\0%s" % (mode, name, digest)))
    body = b"".join(line for _, line in sorted(lines))
    return hashlib.new(algorithm, b"tree %d\0%s" % (len(body), body), usedforsecurity=False).digest()
