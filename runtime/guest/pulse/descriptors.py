"""A bounded scan of the open descriptors of one process. Thin: `open_files` interprets them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from holdfast.base.value_classes import dataclass, field
from holdfast.procfs import descriptor_info, descriptor_links
from holdfast.runtime.guest.pulse import access, open_files

BATCH = 200
"""Number of descriptors read in one go: about a millisecond."""


@dataclass(slots=True)
class Table:
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


def look(pid: int, uid: int, gid: int, wanted: ScanBounds) -> Iterator[Table]:
    """Yield the table as it grows; the last one is complete. Nothing but this may run between two steps."""
    table = Table()
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


def _one(pid: int, name: str, wanted: ScanBounds, table: Table) -> None:
    path = f"/proc/{pid}/fd/{name}"
    target = access.link(path)
    if target is None or not name.isdecimal():
        return
    found = descriptor_links.parse(target)
    if found.kind == "socket":
        table.sockets[found.inode] = int(name)
    kind = open_files.kind_of_link(found)
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
    table.files.append(open_files.row(pid, int(name), target, status, info))


def _is_it(target: str, status: os.stat_result | None, wanted: ScanBounds) -> bool:
    if wanted.path in (target, target.removesuffix(descriptor_links.DELETED)):
        return True
    return status is not None and (status.st_dev, status.st_ino) == wanted.same


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except OSError:
        return None
