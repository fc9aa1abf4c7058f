"""Which processes belong to a session, and whether all of them stand still.

Reads the host's /proc (the checkpointer shares the host's PID namespace). Knows nothing of CRIU.
"""

from __future__ import annotations

import signal
from pathlib import Path

from holdfast.procfs import bounded

PROC = Path("/proc")
MAX_TEXT = 1 << 20
"""Bytes of one file: a status with all groups a task can have (65536) is the longest, and shorter."""
_SHOWN = 1 << (signal.SIGUSR2 - 1)
_AWAITED = sum(1 << (one - 1) for one in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD))


class TargetMismatch(Exception):
    """What the caller said about a session is not what the kernel says."""


def check_container(init_pid: int, container: str) -> None:
    """Raise TargetMismatch unless `init_pid` runs in a cgroup of that container and in namespaces of its own.

    The checkpointer is in the host's PID namespace, so whatever shares that is not a session.
    """
    try:
        groups = bounded.text(PROC / str(init_pid) / "cgroup", MAX_TEXT)
        shared = [
            name for name in ("mnt", "pid") if _namespace(str(init_pid), name) == _namespace("self", name)
        ]
    except OSError as error:
        raise TargetMismatch(f"process {init_pid} cannot be read: {error.strerror}") from error
    if container not in groups:
        raise TargetMismatch(f"process {init_pid} does not belong to container {container[:12]}")
    if shared:
        raise TargetMismatch(f"process {init_pid} does not run in namespaces of its own: {', '.join(shared)}")


def _namespace(pid: str, name: str) -> Path:
    return (PROC / pid / "ns" / name).readlink()


def find_by_inner_pid(init_pid: int, inner_pid: int) -> int:
    """The host's pid of the child of `init_pid` that has `inner_pid` in its own namespace."""
    for child in children(init_pid):
        if inner_pid_of(child) == inner_pid:
            return child
    raise TargetMismatch(f"no process {inner_pid} is a child of the container's first process")


def inner_pid_of(pid: int) -> int:
    """The pid in the innermost namespace; 0 when it is gone."""
    return _inner_of(PROC / str(pid) / "status")


def name_of(pid: int) -> str:
    """What a process calls itself, fit to be shown; empty when it is gone."""
    try:
        name = bounded.read(PROC / str(pid) / "comm", MAX_TEXT)
    except OSError:
        return ""
    return "".join(
        letter if letter.isprintable() else "?" for letter in name.decode("utf-8", "replace").strip()
    )


def _inner_of(status: Path) -> int:
    """The last number of the NSpid line (proc_pid_status(5))."""
    return next((int(line.split()[-1]) for line in _lines(status) if line.startswith("NSpid:")), 0)


def waits_unconfined(init_pid: int) -> bool:
    """Whether a container's first process does nothing but wait to be told that its network is confined.

    `init.c` blocks SIGUSR2 until then, to show it. What it waits for the kernel shows as not blocked while it
    sleeps. A signal that is sent before would be lost (pid_namespaces(7)).
    """
    lines = _lines(PROC / str(init_pid) / "status")
    blocked = next((int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:")), 0)
    return blocked in (_SHOWN, _SHOWN | _AWAITED)


def children(pid: int) -> list[int]:
    """Direct children of every thread of `pid`; empty when it is gone."""
    found: list[int] = []
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            found.extend(int(word) for word in bounded.text(task / "children", MAX_TEXT).split())
    except OSError:
        return found
    return found


def tree(root: int) -> list[int]:
    """`root` and all its descendants, host pids, parents first."""
    found = [root]
    for pid in found:
        found.extend(children(pid))
    return found


def thread_states(pid: int) -> list[str]:
    """One letter per thread, as in /proc/PID/stat (proc(5)); empty when it is gone."""
    try:
        # The command may contain spaces and parentheses; the state follows the last one.
        return [
            bounded.text(task / "stat", MAX_TEXT).rpartition(")")[2].split()[0]
            for task in (PROC / str(pid) / "task").iterdir()
        ]
    except OSError:
        return []


def has_ended(pid: int) -> bool:
    """Whether no thread of a process will run any more; so it is when it is gone."""
    return all(state in "ZX" for state in thread_states(pid))


class FreezeWatch:
    """Says when every task below a root is stopped by a tracer.

    CRIU stops tasks one by one and lets none go before it is done. Two equal scans in which all
    are stopped therefore mean that none can have been missed: a task not in the first scan
    could only have been created by one that was already stopped.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._previous: list[int] | None = None

    def all_stopped(self) -> bool:
        """Scan once; True when this scan and the one before agree that all are stopped."""
        pids = tree(self._root)
        stopped = all(_stopped(pid) for pid in pids)
        agree = stopped and pids == self._previous
        self._previous = pids if stopped else None
        return agree


def _stopped(pid: int) -> bool:
    # "t" is a tracing stop; a zombie (Z) or dead (X) task cannot run any more.
    states = thread_states(pid)
    return bool(states) and all(state in "tZX" for state in states)


def highest_inner_pid(root: int) -> int:
    """The highest process or thread id the tree uses in its own PID namespace.

    Groups and sessions count, too: they have the id of a process that may have ended, and whose stand-in gets
    it.
    """
    return max((_highest_of(status) for pid in tree(root) for status in _statuses(pid)), default=0)


def _highest_of(status: Path) -> int:
    """The highest id in the innermost namespace that a status tells of (proc_pid_status(5))."""
    ids = [line.split()[-1] for line in _lines(status) if line.startswith(("NSpid:", "NSpgid:", "NSsid:"))]
    return max((int(number) for number in ids if number.isdecimal()), default=0)


def _lines(status: Path) -> list[str]:
    """The lines of a status; none when its process is gone."""
    try:
        return bounded.text(status, MAX_TEXT).splitlines()
    except OSError:
        return []


def _statuses(pid: int) -> list[Path]:
    try:
        return [task / "status" for task in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []
