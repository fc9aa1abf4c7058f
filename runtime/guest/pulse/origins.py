"""Scans of the session's processes, so that each is seen while its origin can still be determined.

It reads `/proc` and the clock; `process_lineage.py` judges. A scan costs about 15 µs for each process: it
follows the end of every command and cell, after a short delay, and comes every second while there is anything
to scan.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Protocol

from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.process_lineage import SUPERVISOR, Origin, ProcessLineage, ScannedProcess

SOON = 0.05
"""Seconds from the end of a command to the scan. Commands that follow each other closely share one."""
SLOWLY = 1.0
FRESH = 0.005
"""Seconds for which a scan is recent enough for a process that it did not find."""
MAX_ENVIRONMENT = 256 << 10

_ENDED = "ZX"


class Observer(Protocol):
    """The receiver of each scan."""

    def looked(self, table: list[ScannedProcess]) -> None:
        """Process the table of the processes that are there now."""

    def moved(self, table: list[ScannedProcess]) -> None:
        """Note, before the next `looked`, that all processes were restored and have new start times."""


class Origins:
    """The origin of every process of the session, by pid."""

    def __init__(self, keeper: int = 0) -> None:
        """Begin; `keeper` is the process of the keeper, if there is one: orphans are its children."""
        self._lineage = ProcessLineage()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._looked = 0.0
        self._own_start = 0.0
        self._quiet: set[int] = set()
        self.observer: Observer | None = None
        self._ours = frozenset((os.getpid(), keeper or os.getpid()))
        for pid in self._ours:
            self._lineage.own(pid, SUPERVISOR)

    @property
    def adopters(self) -> frozenset[int]:
        """The supervisor and the keeper, whose children are orphans or processes of a supervisor."""
        return self._ours

    def origin(self, pid: int) -> dict[str, str] | None:
        """Return the origin of a process, or None if there is no such process.

        Call `look` before querying many, so that a pid that was reused is not mistaken for its predecessor.
        """
        found = self.find(pid)
        return None if found is None else found.as_dict()

    def find(self, pid: int) -> Origin | None:
        """Return the same as `origin`, as a value."""
        found = self._lineage.find(pid)
        if found is None and _boot_time() - self._looked > FRESH:
            self.look()
            found = self._lineage.find(pid)
        return found

    def known(self, pid: int) -> Origin | None:
        """Return the same as `find`, for processes that were there at the last scan."""
        return self._lineage.find(pid)

    def running(self, origin: Origin) -> bool:
        """Check whether the command, cell or job is still running."""
        return self._lineage.running(origin)

    def active(self, seconds: float) -> list[Origin]:
        """Return the commands and cells that ran at any time in the last `seconds`."""
        return self._lineage.active(_boot_time() - seconds)

    def own(self, pid: int, origin: Origin) -> None:
        """Declare a process that the supervisor started: a shell, a kernel, a job."""
        self._lineage.own(pid, origin)
        if origin.kind in ("shell", "kernel"):
            self._quiet.add(pid)

    def disown(self, pid: int) -> None:
        """Note that the process has ended."""
        self._lineage.disown(pid)
        self._quiet.discard(pid)

    def begin(self, owner: Origin, what: Origin) -> None:
        """Note that a shell or kernel is about to run something."""
        self._lineage.begin(owner, what, _boot_time(), _newest_pid())

    def end(self, owner: Origin, id_: str) -> None:
        """Note that it ended. A scan for processes it left running follows soon."""
        self._lineage.end(owner, id_, _boot_time())
        self.look_soon()

    def look_soon(self) -> None:
        """Scan once the ending processes have ended."""
        self._look_in(SOON)

    def look(self) -> list[ScannedProcess]:
        """Scan now and return the processes that are there."""
        own, table = os.getpid(), processes()
        start = next((process.start for process in table if process.pid == own), 0.0)
        if self._own_start not in (0.0, start):  # restored: every process has a new start time
            self._lineage.moved(table)
            if self.observer:
                self.observer.moved(table)
        self._own_start = start
        self._lineage.take(table, environment)
        self._looked = _boot_time()
        if self.observer:
            self.observer.looked(table)
        if any(process.pid not in self._quiet and process.pid not in (*self._ours, 1) for process in table):
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


def processes() -> list[ScannedProcess]:
    """Return all visible processes, without those that have ended."""
    found = (access.stat(pid) for pid in access.numbers("/proc"))
    return [
        ScannedProcess(each.pid, each.parent, each.group, each.session, each.start)
        for each in found
        if each and each.state not in _ENDED
    ]


def environment(pid: int) -> Mapping[str, str]:
    """Return the supervisor's markers in the environment a process started with."""
    found: dict[str, str] = {}
    if (user := access.owner(pid)) is None:
        return found
    with access.reading_as(*user):
        data = access.read(f"/proc/{pid}/environ", MAX_ENVIRONMENT) or b""
    for item in data.split(b"\0"):
        if item.startswith(b"HOLDFAST_"):
            name, _, value = item.decode("utf-8", "replace").partition("=")
            found[name] = value
    return found


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _newest_pid() -> int:
    """Return the pid assigned last in this container: the last field of loadavg, see proc_loadavg(5)."""
    return int((access.read("/proc/loadavg") or b"0").rpartition(b" ")[2])
