"""What is known of one file: kind, size, mode, times, owner, and where a link leads.

Only reads; follows a link only where that is asked for.
"""

from __future__ import annotations

import os
import stat
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


def facts(path: str, *, follow: bool) -> dict[str, Any]:
    """Return the facts about a path, for the wire.

    Raises:
        OSError: there is nothing, or it may not be looked at.
    """
    return of(os.stat(path, follow_symlinks=follow), path)  # noqa: PTH116  (a Path loses bytes of odd names)


def of(found: os.stat_result, path: str) -> dict[str, Any]:
    """Return the facts in a stat(2); of a link also where it leads."""
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
