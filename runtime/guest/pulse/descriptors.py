"""A bounded scan of the open descriptors of one process, and the rows in which the pulse reports open files.

The rows are pure: links and information of descriptors in, values out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from holdfast.base.value_classes import dataclass, field
from holdfast.procfs import descriptor_info, descriptor_links
from holdfast.procfs.descriptor_info import FdInfo, FileLock
from holdfast.procfs.descriptor_links import DELETED, DescriptorTarget
from holdfast.runtime.guest.pulse import access

BATCH = 200
"""Number of descriptors read in one go: about a millisecond."""
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


@dataclass(slots=True)
class DescriptorTable:
    """The result of a scan. `count` is None where the table could not be read."""

    count: int | None = None
    left_out: int = 0
    sockets: dict[int, int] = field(default_factory=dict)
    """Descriptors by the socket's inode number."""
    files: list[dict[str, Any]] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """The bounds of a scan, `links` descriptors of which `files` files (or none), and its subject."""

    links: int
    files: int
    others: bool = False
    same: tuple[int, int] | None = None
    """Device and inode of the only file wanted, in addition to its path."""
    path: str | None = None


def look(pid: int, uid: int, gid: int, wanted: ScanBounds) -> Iterator[DescriptorTable]:
    """Yield the table as it grows; the last one is complete. No other code can run between two steps."""
    table = DescriptorTable()
    with access.reading_as(uid, gid):
        try:
            names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  (each look costs, a Path twice as much)
        except OSError:
            names = None
    if names is None:
        yield table
        return
    table.count = len(names)
    for at in range(0, min(len(names), wanted.links), BATCH):
        with access.reading_as(uid, gid):
            for name in names[at : min(at + BATCH, wanted.links)]:
                _one(pid, name, wanted, table)
        yield table
    table.left_out += max(0, len(names) - wanted.links)
    yield table


def _one(pid: int, name: str, wanted: ScanBounds, table: DescriptorTable) -> None:
    path = f"/proc/{pid}/fd/{name}"
    target = access.link(path)
    if target is None or not name.isdecimal():
        return
    found = descriptor_links.parse(target)
    if found.kind == "socket":
        table.sockets[found.inode] = int(name)
    kind = kind_of_link(found)
    if kind not in ("path", "memory"):
        if wanted.others:
            table.others.append({"pid": pid, "fd": int(name), "path": target, "kind": kind})
        return
    if not wanted.files:
        return
    status = _status(path)
    if wanted.path is not None and not _is_it(target, status, wanted):
        return
    if len(table.files) >= wanted.files:
        table.left_out += 1
        return
    info = descriptor_info.parse(access.read(f"/proc/{pid}/fdinfo/{name}") or b"")
    table.files.append(file_row(pid, int(name), target, status, info))


def _is_it(target: str, status: os.stat_result | None, wanted: ScanBounds) -> bool:
    if wanted.path in (target, target.removesuffix(descriptor_links.DELETED)):
        return True
    return status is not None and (status.st_dev, status.st_ino) == wanted.same


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except OSError:
        return None


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


def described_file(info: FdInfo) -> dict[str, Any]:
    """Return the reported fields of an `fdinfo`: offset, access, flags and locks held."""
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


def file_row(pid: int, fd: int, target: str, status: os.stat_result | None, info: FdInfo) -> dict[str, Any]:
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
        **described_file(info),
    }
