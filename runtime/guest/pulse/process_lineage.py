"""The command, cell or job that each process of the session comes from.

Pure: a table of processes and the times at which commands ran come in, origins come out. It owns the rules
and the memory of what was determined at first sight; it reads no file and no clock.

A process is judged once, when it is first seen: its parents can have ended later. The criteria, in this
order: its parent; a known member of its process group or session; the markers in its environment; and for
processes that a shell or a kernel started itself, the command or cell that ran at that time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from holdfast.base.value_classes import as_table, dataclass, replace

TICK = 0.01
"""Seconds: the kernel reports start times in hundredths (proc_pid_stat(5); USER_HZ is 100 on Linux)."""
KEPT_WINDOWS = 128
"""Commands of one owner that a process seen late can still belong to; scans for processes come far sooner."""
SHORT = 120

MARKERS = {"HOLDFAST_JOB": "job", "HOLDFAST_KERNEL": "kernel", "HOLDFAST_SHELL": "shell"}
"""Variables set in the environment of the supervisor's children; the first that a process has counts."""


@dataclass(frozen=True, slots=True)
class ScannedProcess:
    """A process at the time of a scan. `start` is in seconds of the boot clock."""

    pid: int
    parent: int
    group: int
    session: int
    start: float


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a process: a command, cell or job, or else a shell, a kernel or the supervisor."""

    kind: str
    id: str = ""
    command: str = ""
    actor: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the origin for the wire."""
        return as_table(self)


SUPERVISOR = Origin("supervisor")


@dataclass(slots=True)
class Window:
    """The time something ran, in seconds of the boot clock, with the newest pid at its begin and end."""

    origin: Origin
    begin: float
    begin_pid: int
    end: float | None = None
    end_pid: int | None = None

    def covers(self, start: float) -> bool:
        """Check whether a process with that start time can have been started in the window."""
        return start + TICK > self.begin and (self.end is None or start <= self.end)

    def numbered(self, pid: int) -> bool:
        """Check whether a pid was assigned in the window. Pids grow, and start over at their limit."""
        if self.end is None or self.end_pid is None:
            return pid > self.begin_pid
        if self.end_pid >= self.begin_pid:
            return self.begin_pid < pid <= self.end_pid
        return pid > self.begin_pid or pid <= self.end_pid


def short(text: str) -> str:
    """Return the first line of a command, shortened."""
    line = text.strip().partition("\n")[0].rstrip()
    return line if len(line) <= SHORT and line == text.strip() else line[: SHORT - 1] + "…"


class ProcessLineage:
    """Origins of the processes that were there at the last scan."""

    def __init__(self) -> None:
        self._owners: dict[int, Origin] = {}
        self._windows: dict[tuple[str, str], deque[Window]] = {}
        self._origins: dict[tuple[int, float], Origin] = {}
        self._starts: dict[int, float] = {}
        self._groups: dict[int, Origin] = {}
        self._sessions: dict[int, Origin] = {}

    def own(self, pid: int, origin: Origin) -> None:
        """Declare a process that the supervisor starts: a shell, a kernel, a job, itself."""
        self._owners[pid] = origin
        if pid in self._starts:
            self._origins[pid, self._starts[pid]] = origin

    def disown(self, pid: int) -> None:
        """Note that such a process has ended; its pid can be reused."""
        self._owners.pop(pid, None)

    def begin(self, owner: Origin, what: Origin, at: float, pid: int) -> None:
        """Note that a shell or kernel is about to run something, `pid` being the newest pid assigned."""
        windows = self._windows.setdefault((owner.kind, owner.id), deque(maxlen=KEPT_WINDOWS))
        if windows and windows[-1].origin.id == what.id and windows[-1].end is None:
            windows.pop()  # it was offered before, and not accepted
        if windows and windows[-1].end_pid is None:
            windows[-1].end_pid = pid
        windows.append(Window(what, at, pid))

    def end(self, owner: Origin, id_: str, at: float, pid: int | None = None) -> None:
        """Note that it ended. The newest pid at its end is that at the next begin, unless it is given."""
        for window in reversed(self._windows.get((owner.kind, owner.id), ())):
            if window.origin.id == id_:
                window.end, window.end_pid = at, pid
                return

    def running(self, origin: Origin) -> bool:
        """Check whether a command, cell or job is still running."""
        if origin.kind == "job":
            return origin in self._owners.values()
        return any(
            window.end is None and window.origin.id == origin.id
            for windows in self._windows.values()
            for window in windows
        )

    def active(self, since: float) -> list[Origin]:
        """Return the commands and cells that have run at any time since then."""
        return [
            window.origin
            for windows in self._windows.values()
            for window in windows
            if window.end is None or window.end >= since
        ]

    def find(self, pid: int) -> Origin | None:
        """Return the origin of a process that was there at the last scan."""
        start = self._starts.get(pid)
        return None if start is None else self._origins.get((pid, start))

    def take(
        self, table: Iterable[ScannedProcess], environment: Callable[[int], Mapping[str, str]]
    ) -> list[ScannedProcess]:
        """Judge the new processes, forget the ended ones, and return the new ones."""
        seen = {process.pid: process for process in table}
        new = [process for process in seen.values() if (process.pid, process.start) not in self._origins]
        for process in sorted(new, key=lambda each: (each.start, each.pid)):
            self._judge(process, seen, environment, set())
        self._starts = {process.pid: process.start for process in seen.values()}
        if len(self._origins) > len(seen):
            alive = {(process.pid, process.start) for process in seen.values()}
            self._origins = {key: origin for key, origin in self._origins.items() if key in alive}
        self._groups = _still(self._groups, {process.group for process in seen.values()})
        self._sessions = _still(self._sessions, {process.session for process in seen.values()})
        return new

    def moved(self, table: Iterable[ScannedProcess]) -> None:
        """Note that all processes were restored: the same pids with new start times, on another clock."""
        origins = {}
        for process in table:
            origin = self.find(process.pid)
            if origin is not None:
                origins[process.pid, process.start] = origin
        self._origins = origins
        self._starts = dict(origins)
        for key, windows in self._windows.items():
            # What still runs began before any time that the new clock can express.
            lasting = (replace(each, begin=0.0, begin_pid=0) for each in windows if each.end is None)
            self._windows[key] = deque(lasting, maxlen=KEPT_WINDOWS)

    def _judge(
        self,
        process: ScannedProcess,
        seen: Mapping[int, ScannedProcess],
        environment: Callable[[int], Mapping[str, str]],
        under_way: set[int],
    ) -> Origin:
        known = self._origins.get((process.pid, process.start))
        if known is not None or process.pid in under_way:
            return known or SUPERVISOR
        under_way.add(process.pid)
        origin = self._owners.get(process.pid)
        if origin is None:
            above = seen.get(process.parent)
            parent = SUPERVISOR if above is None else self._judge(above, seen, environment, under_way)
            origin = self._started_by(parent, process)
        if origin is SUPERVISOR and process.pid not in self._owners:
            origin = self._orphan(process, environment)
        self._origins[process.pid, process.start] = origin
        for table, leader in ((self._groups, process.group), (self._sessions, process.session)):
            if leader == process.pid or leader not in table:
                table[leader] = origin
        return origin

    def _started_by(self, parent: Origin, process: ScannedProcess) -> Origin:
        """Return the origin of a child: for a shell or kernel, its running command; else its parent's
        origin."""
        if parent.kind not in ("shell", "kernel"):
            return parent
        windows = self._windows.get((parent.kind, parent.id), ())
        return _chosen(windows, process) or parent

    def _orphan(self, process: ScannedProcess, environment: Callable[[int], Mapping[str, str]]) -> Origin:
        if self._owners.get(process.parent) is not SUPERVISOR:
            return SUPERVISOR  # placed here from outside, or a child of another supervisor: it proves nothing
        for table, leader in ((self._groups, process.group), (self._sessions, process.session)):
            if (relative := table.get(leader)) and relative is not SUPERVISOR:
                return self._started_by(relative, process)
        marks = environment(process.pid)
        for marker, kind in MARKERS.items():
            if name := marks.get(marker):
                owner = next(
                    (each for each in self._owners.values() if (each.kind, each.id) == (kind, name)),
                    Origin(kind, name),
                )
                return self._started_by(owner, process)
        fitting = [found for windows in self._windows.values() if (found := _chosen(windows, process))]
        return fitting[0] if len(fitting) == 1 else SUPERVISOR


def _chosen(windows: Iterable[Window], process: ScannedProcess) -> Origin | None:
    """Return the origin whose window fits a process.

    Commands can follow each other within one tick: then the pid distinguishes them.
    """
    fitting = [window for window in windows if window.covers(process.start)]
    exact = [window for window in fitting if window.numbered(process.pid)]
    found = exact or fitting
    return found[-1].origin if found else None


def _still(table: dict[int, Origin], alive: set[int]) -> dict[int, Origin]:
    return table if len(table) <= len(alive) else {key: table[key] for key in table.keys() & alive}
