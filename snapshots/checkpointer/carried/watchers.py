"""Keeps the watchers of a session (inotify(7)) from noticing that it was captured.

Most of what CRIU opens it opens by name only, which is not an event (guard_watches.c). What it reads
nevertheless is shared memory, and files that were deleted and are open. So a queue of events that was empty
at the freeze is emptied again before the session continues: until then only the capture can have caused an
event, if everything that is watched is on file systems that no other process uses. A queue that was not empty
is left alone: events read from it could not be put back (see overflow.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from holdfast.procfs import mount_table, walk
from holdfast.snapshots.checkpointer.ground import detached, pidfd_files, tree
from holdfast.snapshots.checkpointer.layers import where

MOST = 4096
"""Descriptors; a user has at most 128 queues, unless the limit was raised (max_user_instances)."""
_PRIVATE = ("/", "/dev", "/dev/shm")  # noqa: S108 - the session's, by its well-known names
"""Mount points of file systems that a session has for itself."""


@dataclass(frozen=True, slots=True)
class _EventQueue:
    pid: int
    number: int
    descriptor: int

    def is_empty(self) -> bool:
        return not pidfd_files.unread(self.descriptor)

    def is_there(self) -> bool:
        """Check whether the process still has it by that number."""
        return pidfd_files.is_same(self.pid, self.number, self.descriptor)


class Watchers:
    """The queues of one tree, from before its freeze to the end of it; to be closed."""

    def __init__(self, init_pid: int, root: int) -> None:
        """Find them while the session runs. Raises OSError."""
        self._init_pid = init_pid
        self._queues = list(_queues(root))
        self._empty: list[_EventQueue] = []
        self._list = os.memfd_create("empty")
        self._layers = list(_layers(init_pid)) if self._queues else []

    def close(self) -> None:
        """Give back what was borrowed."""
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
        """Remember which are empty, now that the session is frozen; the guard reads it later."""
        self._empty = [one for one in self._queues if one.is_empty() and one.is_there()]
        names = (f"{tree.inner_pid_of(one.pid)}:{one.number}" for one in self._empty)
        os.pwrite(self._list, f" {' '.join(names)} ".encode(), 0)

    def forget(self) -> None:
        """Empty what was empty, before anything of the session runs; only once. Raises OSError."""
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
            if found >= MOST:
                return


def _layers(init_pid: int) -> Iterator[int]:
    """Yield the folders of a container's files as roots of detached mounts; none if they are out of sight."""
    found = where.layers(init_pid)
    for layer in (found.upper, *found.lowers) if found is not None else ():
        folder = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            alone = detached.clone(folder)
        finally:
            os.close(folder)
        try:
            # An open folder, and not the name of one: handles are opened by it.
            yield os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=alone)
        finally:
            os.close(alone)
