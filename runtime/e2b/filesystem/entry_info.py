"""How one file is described: its `EntryInfo`.  Pure."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from holdfast.runtime.files.session_file import Kind, SessionFile

FILE, FOLDER, LINK = "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY", "FILE_TYPE_SYMLINK"
METADATA = "e2b."
_FORMATS: dict[Kind, int] = {
    "file": stat.S_IFREG,
    "folder": stat.S_IFDIR,
    "link": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
    "device": stat.S_IFCHR,
}
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds from 1970: those of a Timestamp. A session can set others."""


class OwnerNames(Protocol):
    """Knows the names of users and groups."""

    def user(self, uid: int) -> str:
        """Return the name of a user."""
        ...

    def group(self, gid: int) -> str:
        """Return the name of a group."""
        ...


def entry(path: str, found: SessionFile, names: OwnerNames, leads_to: Kind | None = None) -> dict[str, Any]:
    """Return the `EntryInfo` of a file at an absolute path.

    `leads_to` is the kind of what a link leads to, if that is known. A link has the type of that, and is
    marked as a link: older clients leave out of lists what is neither file nor folder.
    """
    told: dict[str, Any] = {
        "name": shown(posixpath.basename(path) or "/"),
        "type": _type(found.kind if leads_to is None else leads_to),
        "path": shown(path),
        "size": str(found.size),  # 64-bit numbers are strings in Proto3 JSON
        "mode": found.mode & 0o777,
        "permissions": stat.filemode(_FORMATS[found.kind] | found.mode),
        "owner": names.user(found.uid),
        "group": names.group(found.gid),
        "modifiedTime": moment(found.mtime_ns),
    }
    if metadata := _metadata(found):
        told["metadata"] = metadata
    if found.kind == "link":
        above = posixpath.dirname(path)
        told["symlinkTarget"] = shown(clean(posixpath.join(above, found.target or "")))
        told["isSymlink"] = True
    return told


def written(path: str, metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the description of a file that was uploaded, with its metadata."""
    told: dict[str, Any] = {"path": shown(path), "name": shown(posixpath.basename(path)), "type": "file"}
    return told | ({"metadata": dict(metadata)} if metadata else {})


def attributes_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata as attributes of a file: E2B's name, `user.e2b.KEY`, without the first part."""
    return {METADATA + key: value for key, value in metadata.items()}


def _metadata(found: SessionFile) -> dict[str, str]:
    kept = found.attributes.items()
    return {key.removeprefix(METADATA): value for key, value in kept if key.startswith(METADATA)}


def clean(path: str) -> str:
    """Return a path without what is superfluous; what `..` means depends on links, and stays."""
    return path if ".." in path.split("/") else posixpath.normpath("/" + path.lstrip("/"))


def shown(text: str) -> str:
    """Return a path as text: names may have any bytes, and what is no UTF-8 cannot be sent."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def moment(mtime_ns: int) -> str:
    """Return nanoseconds since 1970 as an RFC 3339 time."""
    seconds, nanoseconds = divmod(mtime_ns, 10**9)
    if not _EARLIEST <= seconds <= _LATEST:
        seconds, nanoseconds = min(max(seconds, _EARLIEST), _LATEST), 0
    whole = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    return f"{whole}.{nanoseconds:09d}Z"


def _type(kind: Kind) -> str:
    # Devices and the like have no type of their own on this wire, and would not be listed without one.
    return {"folder": FOLDER, "link": LINK}.get(kind, FILE)
