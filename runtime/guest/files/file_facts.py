"""Facts about one file: kind, size, mode, times, owner, link target, extended attributes.

A link is followed only where that is asked for. Attributes are the extended ones whose names begin with
"user." (xattr(7)); names are without that here. A file can have more than is read: an answer has a limit.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from typing import Any

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
ATTRIBUTE_PREFIX = "user."
MOST_ATTRIBUTES = 64
LONGEST_ATTRIBUTES = 4096
"""Bytes of names and values together; file systems that keep them in one block have no room for more."""
_ATTRIBUTE_NAME = re.compile(r"[\x21-\x7e]{1,200}")


def facts(path: str, *, follow: bool) -> dict[str, Any]:
    """Return the facts about a path, for the wire.

    Raises:
        OSError: there is nothing, or it may not be looked at.
    """
    return of(os.stat(path, follow_symlinks=follow), path)  # noqa: PTH116  (a Path loses bytes of odd names)


def of(found: os.stat_result, path: str) -> dict[str, Any]:
    """Return the facts in a stat(2); for a link, also its target."""
    target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else None  # noqa: PTH115
    return described(found, os.path.basename(path.rstrip("/")), target)  # noqa: PTH119


def described(found: os.stat_result, name: str, target: str | None) -> dict[str, Any]:
    """Return the facts in a stat(2) of a name; `target` is where a link leads."""
    told: dict[str, Any] = {
        "name": name,
        "kind": KINDS.get(stat.S_IFMT(found.st_mode), "device"),
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "mtime_ns": found.st_mtime_ns,
        "uid": found.st_uid,
        "gid": found.st_gid,
        "version": f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_size}",
    }
    if target is not None:
        told["target"] = target
    return told


def checked_attributes(given: Any) -> dict[str, str] | None:
    """Return attributes that a caller gives; None if they are not valid."""
    if not isinstance(given, dict) or len(given) > MOST_ATTRIBUTES:
        return None
    for name, value in given.items():
        if not _ATTRIBUTE_NAME.fullmatch(name) or not isinstance(value, str):
            return None
        if not value.isascii() or not value.isprintable():
            return None
    return given if sum(map(len, (*given, *given.values()))) <= LONGEST_ATTRIBUTES else None


def write_attributes(descriptor: int, attributes: dict[str, str]) -> None:
    """Give an open file attributes.

    Raises:
        OSError: its file system keeps none, or has no room for them.
    """
    for name, value in attributes.items():
        try:
            os.setxattr(descriptor, ATTRIBUTE_PREFIX + name, value.encode())
        except OSError as error:
            if error.errno == errno.ENOTSUP:
                raise OSError(errno.ENOTSUP, "its file system does not keep file attributes") from None
            raise


def read_attributes(path: str) -> dict[str, str]:
    """Return the attributes of a file, as many as an answer has room for; a link is not followed."""
    found: dict[str, str] = {}
    left = LONGEST_ATTRIBUTES
    with suppress(OSError):  # it has none, is gone, or may not be read
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            short = name.removeprefix(ATTRIBUTE_PREFIX)
            if short == name or not _ATTRIBUTE_NAME.fullmatch(short):
                continue
            value = os.getxattr(path, name, follow_symlinks=False)
            left -= len(short) + len(value)
            if left < 0 or len(found) == MOST_ATTRIBUTES:
                break
            with suppress(UnicodeDecodeError):
                found[short] = value.decode("ascii")
    return found
