"""Rules for the processes whose ends are worth reporting, and the meaning of each end.

Pure: tables of processes, wait statuses and the counts of the kernel's OOM killer come in; decisions come
out. It opens nothing and watches nothing, `death_watch.py` does.

Worth reporting is the end of a process that was left running: one that outlived the command, cell or job it
came from, and that is at the top of what is left (a server, not each of its workers; `make`, not each of its
compilers), or that listens on a port.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from signal import SIGKILL
from typing import Any, Protocol

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest.pulse.process_lineage import Origin, ScannedProcess

MAX_WATCHED = 256
OOM_MEMORY = 5.0
"""Seconds for which a counted OOM kill explains the end of a process by SIGKILL."""
_LEAVING = ("command", "cell", "job")


class Notice(Protocol):
    """The recorder of the ends of processes that the supervisor started itself."""

    def __call__(self, kind: str, end: ProcessEnd | None = None, /, **fields: Any) -> None:
        """Record the kind of an entry, how the process ended if it did, and the entry's fields."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process: an exit code, a signal, or neither if it is not known."""

    exit_code: int | None = None
    signal: int | None = None

    @classmethod
    def of_status(cls, status: int) -> ProcessEnd:
        """Read a wait status, see wait(2)."""
        if os.WIFSIGNALED(status):
            return cls(signal=os.WTERMSIG(status))
        return cls(exit_code=os.WEXITSTATUS(status)) if os.WIFEXITED(status) else cls()

    @classmethod
    def of_child(cls, code: int, status: int) -> ProcessEnd:
        """Read what waitid(2) reports in si_code and si_status."""
        if code == os.CLD_EXITED:
            return cls(exit_code=status)
        return cls(signal=status) if code in (os.CLD_KILLED, os.CLD_DUMPED) else cls()

    @classmethod
    def of_returncode(cls, code: int) -> ProcessEnd:
        """Read a return code in Python's form: negative for a signal."""
        return cls(exit_code=code) if code >= 0 else cls(signal=-code)


class MemoryKills:
    """Matches ends by SIGKILL with the kernel's count of OOM kills."""

    def __init__(self, count: int | None) -> None:
        self._count = count
        self._unexplained: deque[float] = deque(maxlen=64)
        self.of_captures = 0
        """How many of the counted kills were of processes that captures made."""

    @property
    def count(self) -> int | None:
        """The last count."""
        return self._count

    def counted(self, count: int | None, now: float) -> int:
        """Record the count, and return the number of new kills. A lower count belongs to another cgroup."""
        before, self._count = self._count, count
        if before is None or count is None:
            return 0
        if count <= before:
            self.of_captures *= count == before
            return 0
        self._unexplained.extend([now] * min(count - before, 64))
        return count - before

    def excuse(self, kills: int) -> None:
        """Note that this many of the last counted kills were of processes that a capture made."""
        self.of_captures += kills
        for _ in range(min(kills, len(self._unexplained))):
            self._unexplained.pop()

    def cause(self, end: ProcessEnd, now: float) -> str:
        """Return why a process ended: exited, signal, oom or unknown."""
        if end.signal == SIGKILL:
            while self._unexplained and now - self._unexplained[0] > OOM_MEMORY:
                self._unexplained.popleft()
            if self._unexplained:
                self._unexplained.popleft()
                return "oom"
        if end.signal is not None:
            return "signal"
        return "unknown" if end.exit_code is None else "exited"


@dataclass(slots=True)
class WatchedProcess:
    """A process whose end will be reported."""

    pid: int
    start: float
    origin: Origin
    command: str = ""
    ports: tuple[int, ...] = field(default=())


class Roster:
    """The processes that are being watched."""

    def __init__(self) -> None:
        self.watched: dict[int, WatchedProcess] = {}

    def update(
        self,
        table: Iterable[ScannedProcess],
        origin_of: Callable[[int], Origin | None],
        running: Callable[[Origin], bool],
        listening: Mapping[int, tuple[int, ...]],
        is_twin: Callable[[int], bool],
    ) -> tuple[list[WatchedProcess], list[WatchedProcess]]:
        """Apply a scan of all processes; return the newly watched ones, and the ended ones.

        The latter stay in the roster until they are removed: the way they ended is possibly not known yet.
        `is_twin` checks whether a capture made a process, whose end is then no event of the session.
        """
        seen = {process.pid: process for process in table}
        gone = [each for each in self.watched.values() if not _is(each, seen.get(each.pid))]
        new = []
        for process in seen.values():
            origin = origin_of(process.pid)
            if process.pid in self.watched:
                # Keep the old ports if there are none now: it may have ended since the table was read.
                each = self.watched[process.pid]
                each.ports = listening.get(process.pid) or each.ports
            elif origin is None or len(self.watched) >= MAX_WATCHED:
                continue
            elif (
                (process.pid in listening or origin_of(process.parent) != origin)
                and is_left(origin, running)
                and not is_twin(process.pid)
            ):
                each = WatchedProcess(
                    process.pid, process.start, origin, ports=listening.get(process.pid, ())
                )
                self.watched[process.pid] = each
                new.append(each)
        return new, gone

    def moved(self, table: Iterable[ScannedProcess]) -> None:
        """Note that all processes were restored, with the same pids and new start times."""
        for process in table:
            if process.pid in self.watched:
                self.watched[process.pid].start = process.start

    def remove(self, pid: int) -> WatchedProcess | None:
        """Stop watching a process, and return its entry."""
        return self.watched.pop(pid, None)


def is_left(origin: Origin | None, running: Callable[[Origin], bool]) -> bool:
    """Check whether a process of that origin has outlived it."""
    return origin is not None and origin.kind in _LEAVING and not running(origin)


def _is(watched: WatchedProcess, process: ScannedProcess | None) -> bool:
    return process is not None and process.start == watched.start
