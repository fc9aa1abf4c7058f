"""Reads the few files of a Git repository that say where it stands.  Pure.

Their contents come from a session and may be anything: each is bounded, and what is not understood is not
known. Formats: gitrepository-layout(5), gitformat-index(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_HEAD = 4 << 10
"""Bytes of HEAD, of a reference, or of a `.git` that is a file."""
MOST_PACKED = 8 << 20
"""Bytes of packed-refs."""
MOST_INDEX = 16 << 20
"""Bytes of an index; that of 100 000 files takes about 10 MiB."""
MOST_ENTRIES = 50_000
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[!-~]{1,250}")
_HEADER, _FIXED = 12, 62
_EXTENDED, _ASSUMED, _LONG = 0x4000, 0x8000, 0xFFF
_SKIPPED = 0x4000  # of the extended flags: not in the working tree on purpose
_FILES = (0o10, 0o12)  # of a mode's upper bits: a file, a link; others are repositories and sparse folders


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A tracked file as it was when Git last looked: `mtime` in whole seconds, `size` modulo 2**32."""

    path: str
    mtime: int
    size: int


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
    return text if _COMMIT.fullmatch(text) else None


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
    if len(data) > MOST_INDEX or data[:4] != b"DIRC":
        return None
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in (2, 3) or count > MOST_ENTRIES:
        return None
    try:
        return [entry for entry in _entries(data, count) if entry is not None]
    except (IndexError, ValueError):
        return None


def _entries(data: bytes, count: int) -> Iterator[IndexEntry | None]:
    """Yield the entries; None for those that have no file of their own in the working tree."""
    at = _HEADER
    for _ in range(count):
        if at + _FIXED > len(data):
            raise ValueError("it is cut off")
        word = [int.from_bytes(data[at + 4 * n : at + 4 * n + 4], "big") for n in range(10)]
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        begin = at + _FIXED
        left_out = bool(flags & _ASSUMED)
        if flags & _EXTENDED:
            left_out |= bool(int.from_bytes(data[begin : begin + 2], "big") & _SKIPPED)
            begin += 2
        end = data.index(b"\0", begin)
        path = data[begin:end].decode("utf-8", "surrogateescape")
        # Names are padded with one to eight NULs, to a multiple of eight bytes from the entry's begin.
        at += (end - at + 8) // 8 * 8
        real = word[6] >> 12 in _FILES and not left_out and not path.startswith("/")
        yield IndexEntry(path, word[2], word[9]) if real and ".." not in path.split("/") else None


def _text(data: bytes) -> str:
    return data[:MOST_HEAD].decode("utf-8", "replace").strip() if len(data) <= MOST_HEAD else ""
