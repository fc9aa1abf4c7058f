"""Stops everything in a container at once, by its control group.

What is frozen runs no instruction of its own until it is thawed: it can neither signal nor rename nor link.
Both versions of control groups can do it (cgroups(7)): `freezer.state` of the first, `cgroup.freeze` of the
second. A frozen task can be seized by a tracer, and then stops for that one when it is thawed.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.procfs import bounded
from holdfast.snapshots.checkpointer import cgroups

LIMIT = 10.0
"""Seconds to wait. It takes well under one millisecond unless a task is in an uninterruptible sleep."""
_POLL = 0.0005


class NotFrozen(OSError):
    """The container cannot be stopped."""


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
        """Find it.

        Raises:
            NotFrozen: there is none.
        """
        self._folder, self._kind = _find(init_pid)
        self._stopped = False

    def freeze(self, limit: float = LIMIT) -> None:
        """Stop all tasks of the container, and return when they have stopped.

        Raises:
            NotFrozen: the engine holds it already, or a task does not stop; then none is stopped.
        """
        if self.is_frozen():
            raise NotFrozen("the container is paused")
        self._stopped = True
        self._write(self._kind.stop)
        deadline = time.monotonic() + limit
        while not self.is_frozen():
            if time.monotonic() > deadline:
                self.thaw()
                raise NotFrozen("a process is in an uninterruptible sleep and does not stop")
            time.sleep(_POLL)

    def hold(self) -> None:
        """Have tasks that a tracer holds stay stopped when it lets go of them, until `thaw`."""
        self._stopped = True
        self._write(self._kind.stop)

    def thaw(self) -> None:
        """Let everything run that `freeze` stopped; nothing if it did not."""
        if self._stopped:
            self._stopped = False
            self._write(self._kind.go)

    def thaw_leftover(self) -> bool:
        """Let everything run that somebody else left stopped; whether there was such."""
        if not self.is_frozen():
            return False
        self._write(self._kind.go)
        return True

    def members(self) -> tuple[int, ...]:
        """The processes of the container, in the pids of whoever asks."""
        words = bounded.text(self._folder / "cgroup.procs", cgroups.MAX_MEMBERS).split()
        return tuple(int(word) for word in words)

    def handles(self) -> tuple[int, int, str]:
        """Descriptors of the list of threads and of the switch, to be closed by the caller; the word that
        thaws.

        For a process that enters other namespaces: the list is in the pids of whoever reads it.
        """
        threads = os.open(self._folder / self._kind.threads, os.O_RDONLY | os.O_CLOEXEC)
        switch = os.open(self._folder / self._kind.switch, os.O_WRONLY | os.O_CLOEXEC)
        return threads, switch, self._kind.go

    def is_frozen(self) -> bool:
        """Whether nothing in the container runs, whoever has stopped it."""
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
        raise NotFrozen("the container has no freezer that the checkpointer can see")
    return second, _SECOND
