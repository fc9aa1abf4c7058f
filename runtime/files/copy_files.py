"""Copies files of this machine into a session, and files of a session to this machine, below one folder only.

Local links are copied as links and never followed, except for one that the caller names. Everything except
files, folders and links is left out, and so are files that Holdfast itself has written into a folder within
the tree. The session's statements are not trusted: names are single names of a folder, and only files,
folders and links that stay below the copy are made.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from holdfast.base import own_folders
from holdfast.errors import InvalidArgument
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_requests import PART, FileRequests
from holdfast.runtime.files.local_folder import DEEPEST, LocalFolder, stays_below, write_at

if TYPE_CHECKING:
    from holdfast.runtime.files.session_file import SessionFile

Edit = Callable[[str], Callable[[bytes], bytes] | None]
"""Which change is made of a file, by its path."""
_EDITED = 16 << 20
"""Bytes of a file that is changed, at most."""
LEADS_OUT = "a link that leads out of the copy"


def local_entries(folder: Path, made: Copied) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield links, folders and files below a folder of this machine with their paths in it, links unfollowed.

    Links and folders are counted in `made`, and all else is noted there as left out.

    Raises:
        OSError: a folder cannot be read.
    """
    left = [(str(folder), "")]
    while left:
        place, prefix = left.pop()
        with os.scandir(place) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name = f"{prefix}{entry.name}"
            if entry.is_symlink():
                made.links += 1
            elif entry.is_dir(follow_symlinks=False) and own_folders.is_own(entry.path):
                made.leave_out(entry.path, own_folders.WHY)
                continue
            elif entry.is_dir(follow_symlinks=False):
                made.folders += 1
                left.append((entry.path, f"{name}/"))
            elif not entry.is_file(follow_symlinks=False):
                made.leave_out(entry.path, "neither file, folder nor link")
                continue
            yield name, entry


@contextmanager
def opened(path: Path, flags: int) -> Iterator[tuple[IO[bytes], os.stat_result]]:
    """Open a file of this machine for the block, without waiting on special files.

    Raises:
        OSError: it cannot be read, or is not a file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "it is not a regular file", str(path))
        yield file, status


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
        """Copy a folder with its contents; the folder `to` is made if it is missing.

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
        for name, entry in local_entries(path, self._made):
            inner = f"{to.rstrip('/')}/{name}"
            if entry.is_symlink():
                self._requests.make_link(inner, os.readlink(entry.path))  # noqa: PTH115
            elif entry.is_dir(follow_symlinks=False):
                mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                self._requests.make_folder(inner, mode=mode)
            else:
                self._file(Path(entry.path), inner, os.O_NOFOLLOW, edit(name))
        return self._made

    def _file(self, path: Path, to: str, flags: int, change: Callable[[bytes], bytes] | None = None) -> None:
        with opened(path, flags) as (file, status):
            mode = stat.S_IMODE(status.st_mode) & 0o777
            read = file.read if change is None else io.BytesIO(change(file.read(_EDITED))).read
            self._requests.write(to, self._parts(read), mode=mode, mtime_ns=status.st_mtime_ns)
            if os.fstat(file.fileno()).st_mtime_ns != status.st_mtime_ns:
                self._made.changed.append(str(path))
        self._made.files += 1

    def _parts(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        while data := read(PART):
            yield data
            self._made.bytes += len(data)
            self._report(self._made)


class CopyOut:
    """One copy, from its first file to its last."""

    def __init__(self, requests: FileRequests, report: Callable[[Copied], None] = lambda _: None) -> None:
        self._requests = requests
        self._report = report
        self._made = Copied()

    def file(self, path: str, found: SessionFile, to: Path) -> Copied:
        """Copy one file to the path `to`.

        Raises:
            SessionFileError: it cannot be read.
            OSError: it cannot be written.
        """
        with LocalFolder(to.parent) as folder:
            self._file(path, found, folder, to.name)
        return self._made

    def tree(self, path: str, to: Path) -> Copied:
        """Copy a folder's contents into the folder `to`, which is made if it is missing.

        Raises:
            SessionFileError, ProtocolError: something cannot be read.
            OSError: something cannot be written.
        """
        to.mkdir(exist_ok=True)
        with LocalFolder(to) as folder:
            self._folder(path, folder, ())
        return self._made

    def _folder(self, path: str, folder: LocalFolder, above: tuple[str, ...]) -> None:
        if len(above) > DEEPEST:
            raise InvalidArgument(f"cannot copy {path[:200]!r}: folders are nested more than {DEEPEST} deep")
        for found in self._requests.content(path):
            inner = f"{path.rstrip('/')}/{found.name}"
            if found.kind == "folder":
                folder.make_folder(found.name)
                with LocalFolder(found.name, folder) as below:
                    self._folder(inner, below, (*above, found.name))
                    below.change_mode(found.mode)
                self._made.folders += 1
            elif found.kind == "file":
                self._file(inner, found, folder, found.name, follow=False)
            elif found.kind == "link":
                self._link(inner, found, folder, above)
            else:
                self._made.leave_out(inner, "neither file, folder nor link")

    def _file(
        self, path: str, found: SessionFile, folder: LocalFolder, name: str, *, follow: bool = True
    ) -> None:
        with folder.new_file(name, found.mode, found.mtime_ns) as descriptor:
            self._content(path, descriptor, follow=follow)
        self._made.files += 1

    def _content(self, path: str, descriptor: int, *, follow: bool) -> None:
        """Copy up to the initial size, so that a file that keeps growing also ends."""
        offset, size, first = 0, 0, ""
        while True:
            data, now, version = self._requests.read(path, offset, PART, follow=follow)
            if not first:
                size, first = now, version
            data = data[: size - offset]
            write_at(descriptor, data, offset)
            offset += len(data)
            self._made.bytes += len(data)
            self._report(self._made)
            if not data or offset >= size:
                break
        os.ftruncate(descriptor, offset)  # what was all zeros is a hole
        if version != first or offset < size:
            self._made.changed.append(path)

    def _link(self, path: str, found: SessionFile, folder: LocalFolder, above: tuple[str, ...]) -> None:
        target = found.target or ""
        if not stays_below(target, above):
            self._made.leave_out(path, LEADS_OUT)
            return
        folder.make_link(found.name, target)
        self._made.links += 1
