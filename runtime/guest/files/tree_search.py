"""Finds files below a folder by their names, or lines of their content, in small steps, following no links.

Content is searched for a text, not a pattern: a pattern of a caller's could take the supervisor's time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from fnmatch import fnmatchcase

from holdfast.runtime.guest.defaults import LONGEST_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_LOOKED_AT = 200_000
"""Names below the folder."""
DEEPEST = 200
LARGEST = 16 << 20
"""Bytes of a file whose content is searched; larger ones are not."""
PIECE = 256 << 10
_BINARY = 8192
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class SearchTooLarge(Exception):
    """There is more below the folder than is searched."""


def search(folder: str, name: str, containing: bytes | None) -> Generator[dict[str, Any] | None]:
    """Yield the matches, and None after each step without one.

    Folders are walked by name, each before its content; other file systems, and unreadable folders, are
    left out.

    Args:
        folder: where to begin.
        name: a shell pattern for the last part of a path; with a slash in it, for the path below `folder`.
        containing: only regular files with this in a line, each such line; None for names alone.

    Raises:
        OSError: the folder cannot be listed.
        TooMuch: there are more than 200 000 names, or folders nested more than 200 deep.
    """
    device = os.stat(folder).st_dev  # noqa: PTH116  (a Path loses bytes of odd names)
    left = [("", sorted(os.listdir(folder), reverse=True))]  # noqa: PTH208
    seen = 0
    while left:
        below, names = left[-1]
        if not names:
            left.pop()
            continue
        last = names.pop()
        path = f"{below}{last}"
        whole = f"{folder.rstrip('/')}/{path}"
        seen += 1
        if seen > MOST_LOOKED_AT or len(left) > DEEPEST:
            raise SearchTooLarge
        try:
            found = os.lstat(whole)
        except OSError:
            yield None
            continue
        if fnmatchcase(path if "/" in name else last, name):
            if containing is None:
                yield {"path": whole, "kind": stat.S_IFMT(found.st_mode), "size": found.st_size}
            elif stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST and found.st_dev == device:
                yield from _lines(whole, containing)
        if stat.S_ISDIR(found.st_mode) and found.st_dev == device:
            left.append((f"{path}/", _listed(whole)))
        yield None


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder), reverse=True)  # noqa: PTH208
    except OSError:
        return []


def _lines(path: str, containing: bytes) -> Generator[dict[str, Any] | None]:
    """Yield the lines of a file that have a text; a file with a NUL byte at its beginning has none."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was a regular file when it was looked at
            return
        number, rest, offset = 1, b"", 0
        while offset <= LARGEST:
            data = os.pread(descriptor, PIECE, offset)
            if offset == 0 and b"\0" in data[:_BINARY]:
                return
            offset += len(data)
            lines = (rest + data).split(b"\n")
            rest = lines.pop() if data else b""
            for line in lines:
                if containing in line:
                    yield {"path": path, "line": number, "text": _shown(line)}
                number += 1
            if not data:
                return
            yield None
    except OSError:
        return
    finally:
        os.close(descriptor)


def _shown(line: bytes) -> str:
    return line[:LONGEST_LINE].decode("utf-8", "replace")
