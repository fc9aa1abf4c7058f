"""Notes which files a captured tree has open, as stat(2) identifies them.

In a copy they have other numbers, and a program that remembers them would take its own file for another; see
`remembered.py`, which reads these notes. Runs while everything is frozen, and opens nothing.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from holdfast.procfs import bounded, mount_table, walk
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

FILE = "file-numbers.json"
"""Among the images."""
MOST = 20_000
"""Files; what is beyond is not noted."""
MAX_BYTES = 4 << 20
"""Of the note: a file has six numbers."""
_OURS = ("/", "/dev/shm")  # noqa: S108 - the session's, by its well-known name
_NUMBER = 1 << 64


@dataclass(frozen=True, slots=True)
class Numbers:
    """A regular file that a process has open: pid of the session and descriptor, then what stat(2) tells."""

    pid: int
    fd: int
    device: int
    inode: int
    mode: int
    links: int


def note(init_pid: int, pids: Iterable[int], folder: Path) -> None:
    """Write them down for the processes of a tree. Raises OSError."""
    found = [astuple(one) for one in _limited(_of(init_pid, pids))]
    (folder / FILE).write_text(json.dumps(found))


def read(folder: Path) -> list[Numbers]:
    """Read the notes; none in a snapshot of a version that wrote none.

    Raises:
        Unreadable: it is not what `note` writes.
        OSError: it cannot be read.
    """
    try:
        found = json.loads(bounded.read(folder / FILE, MAX_BYTES))
    except FileNotFoundError:
        return []
    except (bounded.TooLong, ValueError, RecursionError) as error:
        raise ImagesUnreadable(f"{FILE} cannot be read ({error})") from error
    if not isinstance(found, list) or len(found) > MOST or not all(map(_is_one, found)):
        raise ImagesUnreadable(f"{FILE} cannot be read (it is of another version)")
    return [Numbers(*one) for one in found]


def _is_one(found: Any) -> bool:
    if not isinstance(found, list) or len(found) != 6:
        return False
    return all(type(one) is int and 0 <= one < _NUMBER for one in found) and found[3] > 0


def _limited(found: Iterator[Numbers]) -> Iterator[Numbers]:
    for number, one in enumerate(found):
        if number >= MOST:
            return
        yield one


def _of(init_pid: int, pids: Iterable[int]) -> Iterator[Numbers]:
    table = list(mount_table.parse(walk.read(f"{init_pid}/mountinfo") or b""))
    roots = [mount for mount in table if mount.point == "/"]
    ours = {mount.id for mount in table if mount.point in _OURS}
    ours |= {mount.id for mount in table for root in roots if mount_table.in_place(mount, root)}
    for pid in pids:
        inner = 0
        for fd in walk.descriptors(pid):
            link = walk.link_of(pid, fd)
            if link is None or link.kind != "path":
                continue
            info = walk.fdinfo_of(pid, fd)
            # Only where no other process has to answer.
            if info is None or info.mount_id not in ours or info.access not in ("r", "rw"):
                continue
            status = walk.stat_of(pid, fd)
            if status is None or not stat.S_ISREG(status.st_mode) or not status.st_nlink:
                continue
            inner = inner or _inner(pid)
            yield Numbers(inner, fd, status.st_dev, status.st_ino, status.st_mode, status.st_nlink)


def _inner(pid: int) -> int:
    status = walk.status_of(pid)
    return status.inner_pid if status is not None else 0
