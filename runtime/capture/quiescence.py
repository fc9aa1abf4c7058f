"""Quiescence of a container: whether every task waits, and whether any has run between two samples.

A task is still if it sleeps in a call without a time limit, which only something outside can end. If all
are still and nothing arrives from outside, nothing will ever happen. The kernel counts the nanoseconds that
each task has run, so that a later sample reveals whether one did. Unknown facts count as not still.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.procfs import process_stat, process_status

MOST = 2000
"""The most tasks for which sampling is worth it."""
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_ENDLESS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_ALWAYS, _NULL, _MINUS = "always", "null", "minus"
# The argument of a call that is its time limit, and its value for none; see the pages in section 2.
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
"""SIGALRM, SIGVTALRM and SIGPROF in a mask of signals: those that setitimer(2) sends."""
_SHELLS = ("bash", "sh", "dash", "init")
_FUTEX = {"x86_64": 202, "aarch64": 98}

Tasks = dict[str, tuple[int, str]]
"""By "pid tid start": nanoseconds a task has run, and its line of proc_pid_syscall(5), empty unless still."""


@dataclass(frozen=True, slots=True)
class ContainerSample:
    """A sample of a container: tasks, the supervisor's separately, and nanoseconds of total run time."""

    tasks: Tasks
    own: Tasks
    usage: int

    @property
    def still(self) -> bool:
        """True if every task but the supervisor's waits for something from outside."""
        return bool(self.tasks) and all(line for _, line in self.tasks.values())

    def same(self, before: ContainerSample) -> bool:
        """Check that nothing but the supervisor has run since, not even a process that came and went."""
        if self.tasks != before.tasks or self.own.keys() != before.own.keys():
            return False
        mine = sum(ran - before.own[key][0] for key, (ran, _) in self.own.items())
        return abs(self.usage - before.usage - mine) <= TOLERANCE

    def places(self) -> dict[str, str]:
        """Return the call that each task is in: its number and first argument."""
        return {key: " ".join(line.split()[:2]) for key, (_, line) in self.tasks.items()}

    def encode(self) -> dict[str, object]:
        """Return the sample as JSON values."""
        return {"tasks": _plain(self.tasks), "own": _plain(self.own), "usage": self.usage}


TOLERANCE = 3_000_000
"""Nanoseconds by which equal counts can differ; `docker exec` of `true` takes 10 to 18 million."""


def decode(fields: Mapping[str, object]) -> ContainerSample:
    """Read a sample from JSON values.

    Raises:
        ValueError, TypeError, KeyError: they are not valid.
    """
    tasks, own, usage = fields["tasks"], fields["own"], fields["usage"]
    if not isinstance(tasks, dict) or not isinstance(own, dict) or not isinstance(usage, int):
        raise TypeError("look")
    parts = [{str(key): (int(ran), str(line)) for key, (ran, line) in each.items()} for each in (tasks, own)]
    return ContainerSample(parts[0], parts[1], usage)


def _plain(tasks: Tasks) -> dict[str, list[object]]:
    return {key: [ran, line] for key, (ran, line) in tasks.items()}


def endless(line: str, machine: str = platform.machine()) -> bool:
    """Check whether a line of /proc/PID/task/TID/syscall shows a call without a time limit."""
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


def look(
    init_pid: int, supervisor: int, proc: Path = _PROC, cgroups: Path = _CGROUPS
) -> ContainerSample | None:
    """Sample a container by its first process; None if a part cannot be seen.

    Args:
        init_pid: its first process, in this host's numbering.
        supervisor: the supervisor, in the container's numbering.
        proc: mount point of proc(5).
        cgroups: mount point of cgroups(7).
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
        return ContainerSample(tasks, own, usage) if own else None
    except (OSError, ValueError, IndexError):
        return None


def clocked(look: ContainerSample, proc: Path = _PROC) -> bool:
    """Check whether a clock can wake a task that is still.

    That can be a timer of its process, one among its descriptors, or an alarm. Of alarms the kernel reveals
    only that they would be caught, which shells always do. An invisible timer counts as a clock.
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
    """Return the list of a container's processes, and the file with the time they ran (cgroups(7))."""
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
    """Read a file of proc(5) without the overhead of text files: a sample reads dozens of them.

    Raises:
        OSError: the file cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = list(iter(lambda: os.read(descriptor, 1 << 16), b""))
    finally:
        os.close(descriptor)
    return b"".join(parts)
