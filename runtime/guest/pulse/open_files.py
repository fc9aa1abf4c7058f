"""Open files as the pulse reports them. Pure: links and information of descriptors in, rows out."""

from __future__ import annotations

import os
import stat
from typing import Any

from holdfast.procfs import descriptor_links
from holdfast.procfs.descriptor_info import FdInfo, FileLock
from holdfast.procfs.descriptor_links import DELETED, DescriptorTarget

_FLAGS = {
    os.O_APPEND: "append",
    os.O_NONBLOCK: "nonblock",
    os.O_DIRECT: "direct",
    os.O_SYNC: "sync",
    os.O_PATH: "path",
}
_MODES = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISSOCK, "socket"),
)


def kind_of_link(link: DescriptorTarget) -> str:
    """Return the kind of a descriptor by its target; `path` if only stat(2) can tell."""
    if link.kind == "path":
        name = link.name
        if name.startswith("/dev/") and not name.startswith("/dev/shm/"):  # noqa: S108
            return "terminal" if name.startswith(("/dev/pts/", "/dev/tty", "/dev/ptmx")) else "device"
        return "path"
    if link.kind == "memfd":
        return "memory"
    return link.kind if link.kind in ("socket", "pipe") else "other"


def kind_of_mode(mode: int) -> str:
    """Return the kind of a file by its mode."""
    return next((name for test, name in _MODES if test(mode)), "other")


def described(info: FdInfo) -> dict[str, Any]:
    """Return what is reported of an `fdinfo`: offset, access, flags and the locks that it holds."""
    return {
        "offset": info.pos,
        "access": info.mode,
        # O_SYNC holds the bit of O_DSYNC as well: all bits must be there.
        "flags": [word for bits, word in _FLAGS.items() if bits and info.flags & bits == bits],
        "locks": [_lock(one) for one in info.locks if not one.waits],
    }


def _lock(one: FileLock) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "mode": one.mode,
        "mandatory": one.mandatory,
        "pid": one.pid if one.pid >= 0 else None,
        "start": one.start,
        "end": one.end,
    }


def row(pid: int, fd: int, target: str, status: os.stat_result | None, info: FdInfo) -> dict[str, Any]:
    """Return the report of an open file."""
    kind = kind_of_link(descriptor_links.parse(target))
    deleted = target.endswith(DELETED)
    if kind == "path":
        kind = kind_of_mode(status.st_mode) if status else "file"
        deleted = deleted and (status is None or status.st_nlink == 0)
    return {
        "pid": pid,
        "fd": fd,
        "path": target.removesuffix(DELETED) if deleted else target,
        "kind": kind,
        "size": status.st_size if status else None,
        "deleted": deleted,
        **described(info),
    }
