"""Copies files of a session to this machine, below one folder only.

What the session says is not trusted: names are single names of a folder, folders are opened without
following links, files are made new and renamed, and nothing is made but files, folders and links that stay
below the copy.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_requests import PART, FileRequests

if TYPE_CHECKING:
    from holdfast.runtime.files.session_file import SessionFile

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEEPEST = 200
"""Folders within folders; more is taken for a trap."""


class CopyOut:
    """One copy, from its first file to its last."""

    def __init__(self, requests: FileRequests, report: Callable[[Copied], None] = lambda _: None) -> None:
        self._requests = requests
        self._report = report
        self._made = Copied()
        self._mask = 0o777 & ~_umask()

    def file(self, path: str, found: SessionFile, to: Path) -> Copied:
        """Copy one file to the path `to`.

        Raises:
            SessionFileError: it cannot be read.
            OSError: it cannot be written.
        """
        with _FolderHandle(to.parent) as folder:
            self._file(path, found, folder, to.name)
        return self._made

    def tree(self, path: str, to: Path) -> Copied:
        """Copy what is in a folder into the folder `to`, which is made if it is missing.

        Raises:
            SessionFileError, ProtocolError: something cannot be read.
            OSError: something cannot be written.
        """
        to.mkdir(exist_ok=True)
        with _FolderHandle(to) as folder:
            self._folder(path, folder, ())
        return self._made

    def _folder(self, path: str, folder: int, above: tuple[str, ...]) -> None:
        if len(above) > DEEPEST:
            raise InvalidArgument(f"cannot copy {path[:200]!r}: folders are nested more than {DEEPEST} deep")
        for found in self._requests.content(path):
            inner = f"{path.rstrip('/')}/{found.name}"
            if found.kind == "folder":
                with suppress(FileExistsError):
                    os.mkdir(found.name, 0o700, dir_fd=folder)
                with _FolderHandle(found.name, folder) as below:
                    self._folder(inner, below, (*above, found.name))
                    os.fchmod(below, found.mode & self._mask)
                self._made.folders += 1
            elif found.kind == "file":
                self._file(inner, found, folder, found.name, follow=False)
            elif found.kind == "link":
                self._link(inner, found, folder, above)
            else:
                self._made.leave_out(inner, "neither file, folder nor link")

    def _file(self, path: str, found: SessionFile, folder: int, name: str, *, follow: bool = True) -> None:
        part = f".{secrets.token_hex(8)}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(part, flags, 0o600, dir_fd=folder)
        try:
            try:
                self._content(path, descriptor, follow=follow)
                os.fchmod(descriptor, found.mode & self._mask)
                os.utime(descriptor, ns=(found.mtime_ns, found.mtime_ns))
            finally:
                os.close(descriptor)
            os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
        self._made.files += 1

    def _content(self, path: str, descriptor: int, *, follow: bool) -> None:
        """Copy until the size that it had at first; one that grows all the time also ends."""
        offset, size, first = 0, 0, ""
        while True:
            data, now, version = self._requests.read(path, offset, PART, follow=follow)
            if not first:
                size, first = now, version
            data = data[: size - offset]
            if data.count(0) < len(data):
                _write(descriptor, data, offset)
            offset += len(data)
            self._made.bytes += len(data)
            self._report(self._made)
            if not data or offset >= size:
                break
        os.ftruncate(descriptor, offset)  # what was all zeros is a hole
        if version != first or offset < size:
            self._made.changed.append(path)

    def _link(self, path: str, found: SessionFile, folder: int, above: tuple[str, ...]) -> None:
        target = found.target or ""
        if not stays_below(target, above):
            self._made.leave_out(path, "a link that leads out of the copy")
            return
        part = f".{secrets.token_hex(8)}.part"
        os.symlink(target, part, dir_fd=folder)
        try:
            os.rename(part, found.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(part, dir_fd=folder)
            raise
        self._made.links += 1


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def stays_below(target: str, above: tuple[str, ...]) -> bool:
    """Check that a link in the folder `above` of a copy leads to a place in the copy. Pure.

    Every link of a copy stays below on its own, so that several of them together do not lead out either.
    """
    if not target or target.startswith("/"):
        return False
    depth, named = len(above), False
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            # `link/..` leaves from where the link leads, which may be higher than it seems.
            if named or depth < 0:
                return False
        elif part not in ("", "."):
            named = True
    return True


class _FolderHandle:
    """A folder that is open for the block; one in another folder is reached without following a link."""

    def __init__(self, path: str | Path, folder: int | None = None) -> None:
        flags = _FOLDER if folder is not None else _FOLDER & ~os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, dir_fd=folder)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _umask() -> int:
    """Return this process's umask; umask(2) could only be asked by changing it for all threads."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Umask:")), 8)
