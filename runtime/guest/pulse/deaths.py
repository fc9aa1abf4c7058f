"""Which processes' ends are news, and what each end means.

Pure: looks at processes, wait statuses and counts of the kernel's memory killer come in; decisions come out.
It opens nothing and watches nothing, `watch.py` does.

News is the end of what somebody left running: of a process that outlived the command, cell or task it came
from, and that stands at the top of what is left (a server, not each of its workers; `make`, not each of its
compilers), or that listens on a port.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from signal import SIGKILL
from typing import Any, Protocol

from holdfast.runtime.guest.pulse.process_lineage import Origin, Seen

MAX_WATCHED = 256
OOM_MEMORY = 5.0
"""Seconds for which a kill for lack of memory, once counted, explains the end of a process by SIGKILL."""
_LEAVING = ("command", "cell", "task")


class Notice(Protocol):
    """Who writes down what became of processes that the supervisor started itself."""

    def __call__(self, kind: str, end: End | None = None, /, **fields: Any) -> None:
        """Take the kind of an entry, how the process ended if it did, and the entry's fields."""


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended: with an exit code, or by a signal, or nobody knows."""

    exit_code: int | None = None
    signal: int | None = None

    @classmethod
    def of_status(cls, status: int) -> End:
        """Read a wait status, see wait(2)."""
        if os.WIFSIGNALED(status):
            return cls(signal=os.WTERMSIG(status))
        return cls(exit_code=os.WEXITSTATUS(status)) if os.WIFEXITED(status) else cls()

    @classmethod
    def of_child(cls, code: int, status: int) -> End:
        """Read what waitid(2) tells in si_code and si_status."""
        if code == os.CLD_EXITED:
            return cls(exit_code=status)
        return cls(signal=status) if code in (os.CLD_KILLED, os.CLD_DUMPED) else cls()

    @classmethod
    def of_returncode(cls, code: int) -> End:
        """Read a return code as Python has it: negative for a signal."""
        return cls(exit_code=code) if code >= 0 else cls(signal=-code)


class MemoryKills:
    """Matches ends by SIGKILL with the kernel's count of processes it killed for lack of memory."""

    def __init__(self, count: int | None) -> None:
        self._count = count
        self._unexplained: deque[float] = deque(maxlen=64)

    def counted(self, count: int | None, now: float) -> int:
        """Take the count, and return how many are new. A lower one is that of another cgroup."""
        before, self._count = self._count, count
        if before is None or count is None or count <= before:
            return 0
        self._unexplained.extend([now] * min(count - before, 64))
        return count - before

    def cause(self, end: End, now: float) -> str:
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
class Watched:
    """A process whose end will be news."""

    pid: int
    start: float
    origin: Origin
    command: str = ""
    ports: tuple[int, ...] = field(default=())


class Roster:
    """The processes that are watched now."""

    def __init__(self) -> None:
        self.watched: dict[int, Watched] = {}

    def update(
        self,
        table: Iterable[Seen],
        origin_of: Callable[[int], Origin | None],
        running: Callable[[Origin], bool],
        listening: Mapping[int, tuple[int, ...]],
    ) -> tuple[list[Watched], list[Watched]]:
        """Take a look at all processes; return those that are watched from now on, and those that are gone.

        The latter stay in the roster until they are removed: how they ended may not be known yet.
        """
        seen = {process.pid: process for process in table}
        gone = [each for each in self.watched.values() if not _is(each, seen.get(each.pid))]
        new = []
        for process in seen.values():
            origin = origin_of(process.pid)
            if process.pid in self.watched:
                # Kept when there are none: it may have ended since the table was read.
                each = self.watched[process.pid]
                each.ports = listening.get(process.pid) or each.ports
            elif origin is None or len(self.watched) >= MAX_WATCHED:
                continue
            elif (process.pid in listening or origin_of(process.parent) != origin) and is_left(
                origin, running
            ):
                each = Watched(process.pid, process.start, origin, ports=listening.get(process.pid, ()))
                self.watched[process.pid] = each
                new.append(each)
        return new, gone

    def moved(self, table: Iterable[Seen]) -> None:
        """Hear that all processes were restored, with the same pids and new start times."""
        for process in table:
            if process.pid in self.watched:
                self.watched[process.pid].start = process.start

    def remove(self, pid: int) -> Watched | None:
        """Watch a process no longer, and return what it was."""
        return self.watched.pop(pid, None)


def is_left(origin: Origin | None, running: Callable[[Origin], bool]) -> bool:
    """Whether a process of that origin has outlived it."""
    return origin is not None and origin.kind in _LEAVING and not running(origin)


def _is(watched: Watched, process: Seen | None) -> bool:
    return process is not None and process.start == watched.start
