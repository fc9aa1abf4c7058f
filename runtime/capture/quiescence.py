"""Whether every task of a container waits, and whether any has run between two looks.

A task is still if it is asleep in a call that only something outside of it can end: no time limit in it.
When all are still and nothing comes from outside, nothing will ever happen. The kernel counts the nanoseconds
each task has run, so that a later look tells whether one did. What cannot be told counts as not still.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.procfs import process_stat, process_status

MOST = 2000
"""Tasks beyond which a look is not worth it."""
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_ENDLESS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_ALWAYS, _NULL, _MINUS = "always", "null", "minus"
# Which argument of a call is its time limit, and what it is if there is none; see the pages in section 2.
_LIMITS: dict[str, dict[int, tuple[int, str]]] = {
    "x86_64": {
        0: (0, _ALWAYS),  # read
        7: (2, _MINUS),  # poll
        23: (4, _NULL),  # select
        34: (0, _ALWAYS),  # pause
        43: (0, _ALWAYS),  # accept
        61: (0, _ALWAYS),  # wait4
        128: (2, _NULL),  # rt_sigtimedwait
        130: (0, _ALWAYS),  # rt_sigsuspend
        202: (3, _NULL),  # futex
        232: (3, _MINUS),  # epoll_wait
        247: (0, _ALWAYS),  # waitid
        270: (4, _NULL),  # pselect6
        271: (2, _NULL),  # ppoll
        281: (3, _MINUS),  # epoll_pwait
        288: (0, _ALWAYS),  # accept4
        441: (3, _NULL),  # epoll_pwait2
    },
    "aarch64": {
        22: (3, _MINUS),
        63: (0, _ALWAYS),
        72: (4, _NULL),
        73: (2, _NULL),
        95: (0, _ALWAYS),
        98: (3, _NULL),
        133: (0, _ALWAYS),
        137: (2, _NULL),
        202: (0, _ALWAYS),
        242: (0, _ALWAYS),
        260: (0, _ALWAYS),
        441: (3, _NULL),
    },
}
_FUTEX_WAITS = (0, 9)
_ALARMS = 1 << 13 | 1 << 25 | 1 << 26
"""SIGALRM, SIGVTALRM and SIGPROF in a mask of signals: what setitimer(2) sends."""
_SHELLS = ("bash", "sh", "dash", "init")
_FUTEX = {"x86_64": 202, "aarch64": 98}

Tasks = dict[str, tuple[int, str]]
"""By "pid tid start": nanoseconds it has run, and the line of the call it is in, empty unless it is still."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a container: tasks of the supervisor apart, nanoseconds all of it has run."""

    tasks: Tasks
    own: Tasks
    usage: int

    @property
    def still(self) -> bool:
        """Whether every task but the supervisor's waits for something from outside."""
        return bool(self.tasks) and all(line for _, line in self.tasks.values())

    def same(self, before: Look) -> bool:
        """Whether nothing but the supervisor has run since, not even something that came and went."""
        if self.tasks != before.tasks or self.own.keys() != before.own.keys():
            return False
        mine = sum(ran - before.own[key][0] for key, (ran, _) in self.own.items())
        return abs(self.usage - before.usage - mine) <= TOLERANCE

    def places(self) -> dict[str, str]:
        """In which call each task is, and on what: its number and first argument."""
        return {key: " ".join(line.split()[:2]) for key, (_, line) in self.tasks.items()}

    def encode(self) -> dict[str, object]:
        """For JSON."""
        return {"tasks": _plain(self.tasks), "own": _plain(self.own), "usage": self.usage}


TOLERANCE = 3_000_000
"""Nanoseconds by which two counts of the same may differ; `docker exec` of `true` takes 10 to 18 million."""


def decode(told: Mapping[str, object]) -> Look:
    """A look from JSON. Raises ValueError, TypeError, KeyError."""
    tasks, own, usage = told["tasks"], told["own"], told["usage"]
    if not isinstance(tasks, dict) or not isinstance(own, dict) or not isinstance(usage, int):
        raise TypeError("look")
    parts = [{str(key): (int(ran), str(line)) for key, (ran, line) in each.items()} for each in (tasks, own)]
    return Look(parts[0], parts[1], usage)


def _plain(tasks: Tasks) -> dict[str, list[object]]:
    return {key: [ran, line] for key, (ran, line) in tasks.items()}


def endless(line: str, machine: str = platform.machine()) -> bool:
    """Whether the line of /proc/PID/task/TID/syscall is of a call that no time ends."""
    words = line.split()
    if len(words) < 9:
        return False
    try:
        number, args = int(words[0]), [int(word, 16) for word in words[1:7]]
    except ValueError:
        return False
    limit = _LIMITS.get(machine, {}).get(number)
    if limit is None or (number == _FUTEX.get(machine) and args[1] & 0x7F not in _FUTEX_WAITS):
        return False
    at, kind = limit
    return kind == _ALWAYS or (args[at] == 0 if kind == _NULL else args[at] in _ENDLESS)


def look(init_pid: int, supervisor: int, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> Look | None:
    """Look at a container by its first process; None if something cannot be seen.

    Args:
        init_pid: its first process, as this host counts.
        supervisor: the supervisor, as the container counts.
        proc: where proc(5) is.
        cgroups: where cgroups are.
    """
    try:
        members, counter = _cgroup(init_pid, proc, cgroups)
        usage = _usage(counter)
        tasks: Tasks = {}
        own: Tasks = {}
        for pid in _text(members).split():
            mine = _inner(proc / pid) == supervisor
            for task in sorted((proc / pid / "task").iterdir()):
                key, seen = _task(pid, task)
                (own if mine else tasks)[key] = seen
                if len(tasks) > MOST:
                    return None
        return Look(tasks, own, usage) if own else None
    except (OSError, ValueError, IndexError):
        return None


def clocked(look: Look, proc: Path = _PROC) -> bool:
    """Whether a task that is still may be woken by a clock all the same.

    By a timer of its process, one among its descriptors, or an alarm: of alarms the kernel tells only that
    they would be caught, which shells always do. What cannot be seen counts as a clock.
    """
    try:
        for pid in {key.split()[0] for key in look.tasks}:
            process = proc / pid
            if _text(process / "timers").strip():
                return True
            caught = _field(process, b"SigCgt")
            if int(caught, 16) & _ALARMS and _text(process / "comm").strip() not in _SHELLS:
                return True
            for fd in (process / "fd").iterdir():
                if str(fd.readlink()) == "anon_inode:[timerfd]":
                    return True
    except (OSError, ValueError):
        return True
    return False


def _task(pid: str, task: Path) -> tuple[str, tuple[int, str]]:
    after = process_stat.fields(_bytes(f"{task}/stat"))
    ran = int(_text(f"{task}/schedstat").split()[0])
    line = _text(f"{task}/syscall").strip()
    return f"{pid} {task.name} {int(after[19])}", (ran, line if after[0] == b"S" and endless(line) else "")


def _inner(process: Path) -> int:
    return int(_field(process, b"NSpid").split()[-1])


def _field(process: Path, name: bytes) -> bytes:
    return process_status.field(_bytes(process / "status"), name)


def _cgroup(init_pid: int, proc: Path, cgroups: Path) -> tuple[Path, Path]:
    """The list of a container's processes, and the file that tells how long they ran (cgroups(7))."""
    for line in _text(proc / str(init_pid) / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpuacct" in controllers.split(","):
            for name in (controllers, "cpuacct", "cpu,cpuacct"):
                folder = cgroups / name / path.lstrip("/")
                if (folder / "cpuacct.usage").exists():
                    return folder / "cgroup.procs", folder / "cpuacct.usage"
        if not controllers and (cgroups / path.lstrip("/") / "cpu.stat").exists():
            folder = cgroups / path.lstrip("/")
            return folder / "cgroup.procs", folder / "cpu.stat"
    raise ValueError("cgroup")


def _usage(counter: Path) -> int:
    words = _text(counter).split()
    return int(words[1]) * 1000 if words[0] == "usage_usec" else int(words[0])


def _text(path: str | Path) -> str:
    return _bytes(path).decode("utf-8", "replace")


def _bytes(path: str | Path) -> bytes:
    """A file of proc(5), without what a text file costs: a look reads dozens of them. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = list(iter(lambda: os.read(descriptor, 1 << 16), b""))
    finally:
        os.close(descriptor)
    return b"".join(parts)
