"""Looks at files and folders for this wire: entries, whole lists of them, and what is in the way."""

from __future__ import annotations

import posixpath
from typing import Any

from holdfast.errors import InvalidArgument, SessionFileError, SessionFileNotFound
from holdfast.runtime.api.session_files import SessionFiles, located, with_attributes
from holdfast.runtime.e2b.filesystem.account_names import AccountNames
from holdfast.runtime.e2b.filesystem.entry_info import clean, entry, shown
from holdfast.runtime.files.session_file import Kind, SessionFile

MOST_ENTRIES = 50_000
"""Entries of one answer, some 20 MB."""
MOST_BYTES = 32 << 20
"""Of their paths together: a session may have folders in folders without end."""
MOST_LINKS = 1000
"""Links of one answer that are followed, each with a request; the others have a type of their own."""


class FolderListing:
    """One list. All levels are of one file system or not, links are not followed into."""

    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self._names = AccountNames(files)
        self._entries: list[dict[str, Any]] = []
        self._links = self._bytes = 0

    def of(self, path: str, depth: int) -> list[dict[str, Any]]:
        """Return the entries in a folder, each folder followed by what is in it.

        Raises:
            InvalidArgument: it is no folder, or there is too much in it.
            SessionFileError: it cannot be read.
        """
        place, found = located(self._files, path or ".")
        if found.kind != "folder":
            raise InvalidArgument(f"cannot list {shown(path)}: it is a {found.kind}, not a directory")
        # A stack of what is left to do, since folders may be nested deeper than Python can recurse.
        left = [(each, clean(place), 1) for each in reversed(with_attributes(self._files, place))]
        while left:
            file, above, level = left.pop()
            here = f"{above.rstrip('/')}/{file.name}"
            self._bytes += len(here) + len(file.target or "")
            if self._bytes > MOST_BYTES or len(self._entries) + len(left) >= MOST_ENTRIES:
                raise InvalidArgument(
                    f"cannot list {shown(path)}: there are more than {MOST_ENTRIES} entries, or their paths"
                    f" are longer than {MOST_BYTES >> 20} MiB together",
                    hint="list parts of it, or fewer levels",
                )
            self._add(here, file)
            if file.kind == "folder" and level < depth:
                left += [(each, here, level + 1) for each in reversed(self._inside(here))]
        return self._entries

    def _inside(self, folder: str) -> list[SessionFile]:
        try:
            return with_attributes(self._files, folder)
        except SessionFileNotFound:  # it was removed meanwhile
            return []

    def _add(self, path: str, file: SessionFile) -> None:
        kind = None
        if file.kind == "link" and self._links < MOST_LINKS:
            self._links += 1
            kind = led_to(self._files, path)
        self._entries.append(entry(path, file, self._names, kind))


def described(files: SessionFiles, path: str) -> dict[str, Any]:
    """Return the entry of one file, a link itself.

    Raises:
        SessionFileError: there is nothing, or it may not be looked at.
    """
    place, found = located(files, path or ".", follow=False, attributes=True)
    kind = led_to(files, place) if found.kind == "link" else None
    return entry(clean(place), found, AccountNames(files), kind)


def led_to(files: SessionFiles, path: str) -> Kind | None:
    """Return the kind of what a link leads to; None if that cannot be looked at."""
    try:
        return files.stat(path).kind
    except SessionFileError:
        return None


def is_folder(files: SessionFiles, path: str) -> bool:
    """Return whether a folder is there, or a link to one."""
    try:
        return files.stat(path).kind == "folder"
    except SessionFileNotFound:
        return False


def make_above(files: SessionFiles, path: str) -> None:
    """Make the folders above a path, as this wire does for whatever is written."""
    above = posixpath.dirname(path)
    if above not in ("", "/", "~"):
        files.make_folder(above, parents=True)
