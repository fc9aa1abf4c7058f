"""Queues of inotify(7): a capture empties them, and in a copy they begin with the right contents.

Most of what CRIU opens it opens by name only, which is not an event (guard_watches.c). Its other reads
concern shared memory, and files that were deleted and are open. So a queue of events that was empty at the
freeze is emptied again before the session continues: until then only the capture can have caused an event,
if everything that is watched is on file systems that no other process uses. A queue that was not empty is
left alone: events read from it could not be put back.

Events that were not read yet are not in the images (guard_unread.c marks there whose they were). The kernel
has one for events it could not keep: IN_Q_OVERFLOW, after which a program looks at everything it watches.
It comes when a queue is full. So before anything of a copy runs, its queue is filled with events of files
of ours until it overflows, and emptied up to that last one. The event of our watches' end finds no room.

Where nothing was lost, a restore's own events are taken out: it makes files that were deleted, and deletes
them. But a watch of such a file has ended with that, and the event of its end stays (IN_IGNORED).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from holdfast.procfs import mount_table, walk
from holdfast.snapshots.checkpointer.ground import mounting, pidfd_files, tree
from holdfast.snapshots.checkpointer.layers import scan
from holdfast.snapshots.checkpointer.record import ImageMessages

MOST_DESCRIPTORS = 4096
"""Descriptors; a user has at most 128 queues, unless the limit was raised (max_user_instances)."""
_PRIVATE = ("/", "/dev", "/dev/shm")  # noqa: S108 - the session's, by its well-known names
"""Mount points of file systems that a session has for itself."""
UNREAD = 1 << 30
"""The mark among the flags of an inotify; see guard_unread.c."""
MOST_LOST = 1024
"""Queues of one tree. A user has at most 128, unless the limit was raised (max_user_instances)."""
EVENT = 16
"""Bytes of an event without a name, as this one is."""
_AT_ONCE = 1024
_LOOKS = 4096
"""The number of events in each: the kernel's limit is 16384 unless it was raised (max_queued_events)."""
_ATTRIB = 0x4


@dataclass(frozen=True, slots=True)
class _EventQueue:
    pid: int
    number: int
    descriptor: int

    def is_empty(self) -> bool:
        return not pidfd_files.unread(self.descriptor)

    def is_there(self) -> bool:
        """Check whether the process still has it under that number."""
        return pidfd_files.is_same(self.pid, self.number, self.descriptor)


class Watchers:
    """The queues of one tree, from before its freeze until its end; to be closed."""

    def __init__(self, init_pid: int, root: int) -> None:
        """Find the queues while the session runs. Raises OSError."""
        self._init_pid = init_pid
        self._queues = list(_queues(root))
        self._empty: list[_EventQueue] = []
        self._list = os.memfd_create("empty")
        self._layers = list(_layers(init_pid)) if self._queues else []

    def close(self) -> None:
        """Return the borrowed descriptors."""
        for one in (*self.handles, *(queue.descriptor for queue in self._queues)):
            os.close(one)

    @property
    def handles(self) -> tuple[int, ...]:
        """Descriptors for CRIU to inherit."""
        return (self._list, *self._layers)

    @property
    def environment(self) -> dict[str, str]:
        """The variables for the guard."""
        return {"HOLDFAST_EMPTY": str(self._list), "HOLDFAST_WATCHES": " ".join(map(str, self._layers))}

    def note(self) -> None:
        """Remember the empty queues, now that the session is frozen; the guard reads the list later."""
        self._empty = [one for one in self._queues if one.is_empty() and one.is_there()]
        names = (f"{tree.inner_pid_of(one.pid)}:{one.number}" for one in self._empty)
        os.pwrite(self._list, f" {' '.join(names)} ".encode(), 0)

    def forget(self) -> None:
        """Empty the queues that were empty, before any task of the session runs; only once. Raises
        OSError."""
        disturbed = [one for one in self._empty if not one.is_empty()]
        self._empty = []
        private = self._private() if disturbed else set()
        for one in disturbed:
            info = walk.fdinfo_of(os.getpid(), one.descriptor)
            # Watched only where no other process can have done anything.
            if info is not None and {device for device, _ in info.watches()} <= private:
                pidfd_files.drain(one.descriptor)

    def _private(self) -> set[int]:
        table = mount_table.parse(walk.read(f"{self._init_pid}/mountinfo") or b"")
        return {os.makedev(one.major, one.minor) for one in table if one.point in _PRIVATE}


def _queues(root: int) -> Iterator[_EventQueue]:
    found = 0
    for pid in walk.tree(root).pids:
        for number in walk.descriptors(pid):
            link = walk.link_of(pid, number)
            if link is None or link.kind != "anon" or link.name != "inotify":
                continue
            with suppress(OSError):  # gone meanwhile
                yield _EventQueue(pid, number, pidfd_files.queue(pid, number))
                found += 1
            if found >= MOST_DESCRIPTORS:
                return


def _layers(init_pid: int) -> Iterator[int]:
    """Yield the folders of a container's files as roots of detached mounts; none if they are not visible."""
    found = scan.layers_of(init_pid)
    for layer in (found.upper, *found.lowers) if found is not None else ():
        folder = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            alone = mounting.detached_clone(folder)
        finally:
            os.close(folder)
        try:
            # An open folder, and not the name of one: handles are opened by it.
            yield os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=alone)
        finally:
            os.close(alone)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a queue, in pids of the session, and its descriptor.

    `lost`: it had events. `watches`: how many it had.
    """

    pid: int
    fd: int
    lost: bool
    watches: int


def unmark(files: Iterable[Any]) -> dict[int, tuple[bool, int]]:
    """Remove the mark from the file entries of a snapshot, in place. Pure.

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
    """Refill the queues of a restored tree that does not run yet. Raises OSError."""
    if not found:
        return
    ours = tree.by_inner_pid(pids)
    for number, one in enumerate(found):
        if number >= MOST_LOST or one.pid not in ours:
            raise OSError(f"process {one.pid} cannot be notified of its lost events")
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
    """Leave only the overflow event in a queue. Raises OSError."""
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
    """Fill a queue until it is full, with two files in turn: an event equal to the last is not added."""
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
