"""Has an inotify of a copy begin with nothing, or with the word that events were lost.

Events that were not read yet are not in the images (guard_unread.c marks there whose they were). The kernel
has one for what it could not keep: IN_Q_OVERFLOW, after which a program looks at everything it watches
(inotify(7)). It comes when a queue is full. So before anything of a copy runs, its queue is filled with
events of files of ours until it overflows, and emptied up to that last one. What the end of our watches would
add finds no room.

Where nothing was lost, what a restore did itself is taken out: it makes files that were deleted, and deletes
them. But a watch of such a file has ended with that, and what says so stays (IN_IGNORED).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.ground import pidfd_files, tree
from holdfast.snapshots.checkpointer.record import ImageMessages

UNREAD = 1 << 30
"""The mark among the flags of an inotify; see guard_unread.c."""
MOST = 1024
"""Queues of one tree. A user has at most 128, unless the limit was raised (max_user_instances)."""
EVENT = 16
"""Bytes of an event without a name, as this one is."""
_AT_ONCE = 1024
_LOOKS = 4096
"""The number of events in each: the kernel's limit is 16384 unless it was raised (max_queued_events)."""
_ATTRIB = 0x4


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a queue, in pids of the session, and by which descriptor.

    `lost`: it had events. `watches`: how many it had.
    """

    pid: int
    fd: int
    lost: bool
    watches: int


def unmark(files: Iterable[Any]) -> dict[int, tuple[bool, int]]:
    """Take the mark off the file entries of a snapshot, in place. Pure.

    Returns of each inotify, by its number, whether it was marked, and how many watches it has.
    """
    queues = {}
    for entry in files:
        if entry.HasField("ify"):
            queues[int(entry.id)] = bool(entry.ify.flags & UNREAD), len(entry.ify.wd)
            entry.ify.flags &= ~UNREAD
    return queues


def holders(images: ImageMessages, queues: Mapping[int, tuple[bool, int]]) -> Iterator[Holder]:
    """Return for each of these files one process that has it. Pure."""
    wanted = dict(queues)
    for process in images.messages("pstree") if wanted else ():
        for ids in images.messages(f"ids-{process.pid}")[:1]:
            for one in images.messages(f"fdinfo-{ids.files_id}"):
                if int(one.id) in wanted:
                    yield Holder(int(process.pid), int(one.fd), *wanted.pop(int(one.id)))


def begin(pids: Iterable[int], found: Sequence[Holder]) -> None:
    """Do it with the queues of a restored tree of which nothing runs yet. Raises OSError."""
    if not found:
        return
    ours = tree.by_inner_pid(pids)
    for number, one in enumerate(found):
        if number >= MOST or one.pid not in ours:
            raise OSError(f"process {one.pid} cannot be notified of the events it lost")
        queue = pidfd_files.queue(ours[one.pid], one.fd)
        try:
            if one.lost:
                overflow(queue)
            elif _watches(queue) == one.watches:
                pidfd_files.drain(queue)
        finally:
            os.close(queue)


def _watches(queue: int) -> int:
    info = walk.fdinfo_of(os.getpid(), queue)
    return sum(1 for _ in info.watches()) if info is not None else 0


def overflow(queue: int) -> None:
    """Leave nothing in a queue but the word that it overflowed. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with ExitStack() as opened:
        files = [os.memfd_create("overflow") for _ in range(2)]
        for file in files:
            opened.callback(os.close, file)
        watches = [libc.inotify_add_watch(queue, b"/proc/self/fd/%d" % file, _ATTRIB) for file in files]
        if min(watches) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        _fill(queue, *files)
        for watch in watches:
            libc.inotify_rm_watch(queue, watch)
    while (left := pidfd_files.unread(queue) - EVENT) > 0:
        os.read(queue, left)


def _fill(queue: int, one: int, other: int) -> None:
    """Until nothing is added any more. Two files in turn: an event that is like the last is not added."""
    before = -1
    for _ in range(_LOOKS):
        now = pidfd_files.unread(queue)
        if now <= before:
            return
        before = now
        for _ in range(_AT_ONCE // 2):
            os.fchmod(one, 0o600)
            os.fchmod(other, 0o600)
    raise OSError("a queue of events does not overflow")
