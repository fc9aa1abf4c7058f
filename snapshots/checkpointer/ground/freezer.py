"""The freezer: stops all tasks of a container together, by its control group.

A frozen task runs no instruction of its own until it is thawed: it can neither signal nor rename nor link.
Both versions of control groups can do it (cgroups(7)): `freezer.state` of the first, `cgroup.freeze` of the
second. A tracer can seize a frozen task, which then stops for that tracer when it is thawed.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.procfs import bounded
from holdfast.snapshots.checkpointer.ground import cgroups

LIMIT = 4.0
"""Seconds to wait. It takes well under one millisecond unless a task is in an uninterruptible sleep: one that
waits for a slow disk, or that the kernel does not run because the machine is busy.
"""
_POLL = 0.0005


class NotFrozen(OSError):
    """The container cannot be stopped."""


class NotStopping(NotFrozen):
    """A task has not stopped in time. It can stop later."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """File names and words of one version of control groups."""

    switch: str
    stop: str
    go: str
    state: str
    stopped: str
    threads: str


_FIRST = _Kind("freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN", "tasks")
_SECOND = _Kind("cgroup.freeze", "1", "0", "cgroup.events", "frozen 1", "cgroup.threads")


class Freezer:
    """The freezer of one container."""

    def __init__(self, init_pid: int) -> None:
        """Find the freezer.

        Raises:
            NotFrozen: the container does not have a freezer.
        """
        self._folder, self._kind = _find(init_pid)
        self._stopped = False

    def freeze(self, limit: float = LIMIT) -> None:
        """Stop all tasks of the container, and return when they have stopped.

        Raises:
            NotFrozen: the engine holds it already.
            NotStopping: a task does not stop; then none is stopped.
        """
        if self.is_frozen():
            raise NotFrozen("the container is paused")
        self._stopped = True
        self._write(self._kind.stop)
        deadline = time.monotonic() + limit
        while not self.is_frozen():
            if time.monotonic() > deadline:
                self.thaw()
                raise NotStopping("a process is in an uninterruptible sleep")
            time.sleep(_POLL)

    def hold(self) -> None:
        """Keep tasks stopped by a tracer stopped after it detaches from them, until `thaw`."""
        self._stopped = True
        self._write(self._kind.stop)

    def thaw(self) -> None:
        """Resume everything that `freeze` stopped; do nothing if it did not."""
        if self._stopped:
            self._stopped = False
            self._write(self._kind.go)

    def thaw_leftover(self) -> bool:
        """Resume tasks that another process left frozen; return whether there were any."""
        if not self.is_frozen():
            return False
        self._write(self._kind.go)
        return True

    def members(self) -> tuple[int, ...]:
        """Return the processes of the container, in the caller's pids."""
        words = bounded.text(self._folder / "cgroup.procs", cgroups.MAX_MEMBERS).split()
        return tuple(int(word) for word in words)

    def handles(self) -> tuple[int, int, str]:
        """Return descriptors of the list of threads and of the switch, which the caller closes, and the value
        that thaws.

        They are for a process that enters other namespaces: the list is in the pids of its reader.
        """
        threads = os.open(self._folder / self._kind.threads, os.O_RDONLY | os.O_CLOEXEC)
        switch = os.open(self._folder / self._kind.switch, os.O_WRONLY | os.O_CLOEXEC)
        return threads, switch, self._kind.go

    def is_frozen(self) -> bool:
        """Return whether all tasks of the container are stopped, regardless of the cause."""
        return self._kind.stopped in (self._folder / self._kind.state).read_text()

    def _write(self, word: str) -> None:
        (self._folder / self._kind.switch).write_text(word)


def _find(init_pid: int) -> tuple[Path, _Kind]:
    second: Path | None = None
    for controllers, folder in cgroups.folders(init_pid):
        if "freezer" in controllers.split(","):
            return folder, _FIRST
        if not controllers and (folder / _SECOND.switch).exists():
            second = folder
    if second is None:
        raise NotFrozen("the container does not have a freezer visible to the checkpointer")
    return second, _SECOND
