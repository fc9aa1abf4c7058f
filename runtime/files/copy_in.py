"""Copies files of this machine into a session.

Local links are copied as links and never followed, except for one that the caller names. What is neither
file, folder nor link is left out, and so is what Holdfast itself has written into a folder within the tree.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.base import own_folders
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_requests import PART, FileRequests

Edit = Callable[[str], Callable[[bytes], bytes] | None]
"""Which change is made of a file, by its path."""
_EDITED = 16 << 20
"""Bytes of a file that is changed, at most."""


class CopyIn:
    """One copy, from its first file to its last."""

    def __init__(self, requests: FileRequests, report: Callable[[Copied], None] = lambda _: None) -> None:
        self._requests = requests
        self._report = report
        self._made = Copied()

    def file(self, path: Path, to: str) -> Copied:
        """Copy one file, a link to one included.

        Raises:
            OSError: it cannot be read, or is not a file.
            SessionFileError: it cannot be written.
        """
        self._file(path, to, 0)
        return self._made

    def tree(self, path: Path, to: str, edit: Edit = lambda _: None) -> Copied:
        """Copy a folder with all that is in it; the folder `to` is made if it is missing.

        Args:
            path: the folder.
            to: its name in the session.
            edit: is asked for each file, by its path in the folder, and returns what is to be made of its
                content, or None to copy it as it is.

        Raises:
            OSError: something cannot be read.
            SessionFileError: something cannot be written.
        """
        self._requests.make_folder(to, mode=stat.S_IMODE(path.stat().st_mode))
        left = [(path, to)]
        while left:
            folder, place = left.pop()
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            for entry in found:
                inner = f"{place.rstrip('/')}/{entry.name}"
                if entry.is_symlink():
                    self._requests.make_link(inner, os.readlink(entry.path))  # noqa: PTH115
                    self._made.links += 1
                elif entry.is_dir(follow_symlinks=False) and own_folders.is_own(entry.path):
                    self._made.leave_out(entry.path, own_folders.WHY)
                elif entry.is_dir(follow_symlinks=False):
                    mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                    self._requests.make_folder(inner, mode=mode)
                    self._made.folders += 1
                    left.append((Path(entry.path), inner))
                elif entry.is_file(follow_symlinks=False):
                    change = edit(os.path.relpath(entry.path, path))
                    self._file(Path(entry.path), inner, os.O_NOFOLLOW, change)
                else:
                    self._made.leave_out(entry.path, "neither file, folder nor link")
        return self._made

    def _file(self, path: Path, to: str, flags: int, change: Callable[[bytes], bytes] | None = None) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
        with os.fdopen(descriptor, "rb") as file:
            told = os.fstat(file.fileno())
            if not stat.S_ISREG(told.st_mode):
                raise OSError(None, "it is no regular file", str(path))
            mode = stat.S_IMODE(told.st_mode) & 0o777
            read = file.read if change is None else io.BytesIO(change(file.read(_EDITED))).read
            self._requests.write(to, self._parts(read), mode=mode, mtime_ns=told.st_mtime_ns)
            if os.fstat(file.fileno()).st_mtime_ns != told.st_mtime_ns:
                self._made.changed.append(str(path))
        self._made.files += 1

    def _parts(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        while data := read(PART):
            yield data
            self._made.bytes += len(data)
            self._report(self._made)
