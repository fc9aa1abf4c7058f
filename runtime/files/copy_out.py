"""Copies files of a session to this machine, below one folder only.

What the session says is not trusted: names are single names of a folder, and nothing is made but files,
folders and links that stay below the copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_requests import PART, FileRequests
from holdfast.runtime.files.local_folder import DEEPEST, LocalFolder, stays_below, write_at

if TYPE_CHECKING:
    from holdfast.runtime.files.session_file import SessionFile

LEADS_OUT = "a link that leads out of the copy"


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
        """Copy what is in a folder into the folder `to`, which is made if it is missing.

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
        """Copy until the size that it had at first; one that grows all the time also ends."""
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
