"""Reads the few files of a Git repository that say where it stands.  Pure.

Their contents come from a session and may be anything: each is bounded, and what is not understood is not
known. Formats: gitrepository-layout(5).
"""

from __future__ import annotations

import re

from holdfast.runtime.history.repositories import git_index
from holdfast.runtime.history.repositories.git_index import IndexEntry

MOST_HEAD = 4 << 10
"""Bytes of HEAD, of a reference, or of a `.git` that is a file."""
MOST_PACKED = 8 << 20
"""Bytes of packed-refs."""
MOST_INDEX = 16 << 20
"""Bytes of an index; that of 100 000 files takes about 10 MiB."""
MOST_ENTRIES = 50_000
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[!-~]{1,250}")


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
    found = git_index.entries(data, MOST_ENTRIES, (2, 3)) if len(data) <= MOST_INDEX else None
    kinds = (git_index.FILE, git_index.LINK)  # others are repositories and sparse folders
    return None if found is None else [one for one in found if one.kind in kinds and not one.left_out]


def _text(data: bytes) -> str:
    return data[:MOST_HEAD].decode("utf-8", "replace").strip() if len(data) <= MOST_HEAD else ""
