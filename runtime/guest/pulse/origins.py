"""Looks at the processes of the session, so that each is seen while it is known where it is from.

It reads `/proc` and the clock; `lineage.py` judges. A look costs about 15 µs for each process: it follows the
end of every command and cell, but not at once, and comes every second while there is anything to look at.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping

from holdfast.runtime.guest.pulse.lineage import SUPERVISOR, Lineage, Origin, Seen

SOON = 0.05
"""Seconds from the end of a command to the look. Commands that follow each other closely share one."""
SLOWLY = 1.0
FRESH = 0.005
"""Seconds for which a look is good enough for a process that it did not find."""
MAX_ENVIRONMENT = 256 << 10

_TICKS: float = os.sysconf("SC_CLK_TCK")


class Origins:
    """The origin of every process of the session, by pid."""

    def __init__(self) -> None:
        self._lineage = Lineage()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._looked = 0.0
        self._own_start = 0.0
        self._quiet: set[int] = set()
        self.listeners: list[Callable[[list[Seen]], None]] = []
        """Called after each look with the table."""
        self._lineage.own(os.getpid(), SUPERVISOR)

    def origin(self, pid: int) -> dict[str, str] | None:
        """Return where a process comes from, or None if there is no such process.

        `look` before asking about many, so that a number that was given out twice is not mistaken.
        """
        found = self.find(pid)
        return None if found is None else found.as_dict()

    def find(self, pid: int) -> Origin | None:
        """As `origin`, as a value."""
        found = self._lineage.find(pid)
        if found is None and _boot_time() - self._looked > FRESH:
            self.look()
            found = self._lineage.find(pid)
        return found

    def running(self, origin: Origin) -> bool:
        """Whether the command or cell has not ended."""
        return self._lineage.running(origin)

    def own(self, pid: int, origin: Origin) -> None:
        """Say what a process is that the supervisor started: a shell, a kernel, a task."""
        self._lineage.own(pid, origin)
        if origin.kind in ("shell", "kernel"):
            self._quiet.add(pid)

    def disown(self, pid: int) -> None:
        """Hear that it is gone."""
        self._lineage.disown(pid)
        self._quiet.discard(pid)

    def begin(self, owner: Origin, what: Origin) -> None:
        """Hear that a shell or kernel is about to run something."""
        self._lineage.begin(owner, what, _boot_time(), _newest_pid())

    def end(self, owner: Origin, id_: str) -> None:
        """Hear that it ended. What it left running is looked for soon."""
        self._lineage.end(owner, id_, _boot_time(), _newest_pid())
        self._look_in(SOON)

    def look(self) -> list[Seen]:
        """Look now and return what is there."""
        own, table = os.getpid(), processes()
        start = next((process.start for process in table if process.pid == own), 0.0)
        if self._own_start not in (0.0, start):  # restored: every process has begun anew
            self._lineage.moved(table)
        self._own_start = start
        self._lineage.take(table, environment)
        self._looked = _boot_time()
        for listener in self.listeners:
            listener(table)
        if any(process.pid not in self._quiet and process.pid not in (own, 1) for process in table):
            self._look_in(SLOWLY)
        return table

    def _look_in(self, seconds: float) -> None:
        at = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._due)

    def _due(self) -> None:
        self._timer = None
        self.look()


def processes() -> list[Seen]:
    """Return all processes that can be seen, without those that have ended."""
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name[0].isdigit()]
    return [process for pid in pids if (process := read_process(pid))]


def read_process(pid: int) -> Seen | None:
    """Return a process, or None if it is gone or was not collected yet."""
    data = read(f"/proc/{pid}/stat")
    # The name in parentheses may contain anything, see proc_pid_stat(5).
    state, *fields = data[data.rfind(b")") + 2 :].split(b" ", 20)
    if len(fields) < 19 or state in (b"Z", b"X"):
        return None
    return Seen(pid, int(fields[0]), int(fields[1]), int(fields[2]), int(fields[18]) / _TICKS)


def environment(pid: int) -> Mapping[str, str]:
    """Return the marks of the supervisor in the environment a process began with."""
    found = {}
    for item in read(f"/proc/{pid}/environ", MAX_ENVIRONMENT).split(b"\0"):
        if item.startswith(b"HOLDFAST_"):
            name, _, value = item.decode("utf-8", "replace").partition("=")
            found[name] = value
    return found


def read(path: str, size: int = 4096) -> bytes:
    """Return the beginning of a file of /proc, empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, size)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _newest_pid() -> int:
    """Return the number given out last in this container: the last field of loadavg, see proc_loadavg(5)."""
    return int(read("/proc/loadavg").rpartition(b" ")[2] or 0)
