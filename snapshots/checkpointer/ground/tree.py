"""Finds the processes that belong to a session, and checks whether all of them are stopped.

Reads the host's /proc (the checkpointer shares the host's PID namespace). Knows nothing of CRIU.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.procfs import bounded, process_stat, process_status, walk

MAX_TEXT = 1 << 20
"""Bytes of the list of a process's cgroups."""
_IDS = (b"NSpid", b"NSpgid", b"NSsid")
_SHOWN = 1 << (signal.SIGUSR2 - 1)
_AWAITED = sum(1 << (one - 1) for one in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD))


class TargetMismatch(Exception):
    """The caller's description of a session differs from the kernel's."""


def check_container(init_pid: int, container: str) -> None:
    """Raise TargetMismatch unless `init_pid` runs in a cgroup of that container and in namespaces of its own.

    The checkpointer is in the host's PID namespace, so whatever shares that is not a session.
    """
    try:
        groups = bounded.text(walk.PROC / str(init_pid) / "cgroup", MAX_TEXT)
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
    return (walk.PROC / pid / "ns" / name).readlink()


def find_by_inner_pid(init_pid: int, inner_pid: int) -> int:
    """Return the host's pid of the child of `init_pid` that has `inner_pid` in its own namespace."""
    for child in walk.children(init_pid, walk.EVERY):
        if inner_pid_of(child) == inner_pid:
            return child
    raise TargetMismatch(f"process {inner_pid} is not a child of the container's first process")


def by_inner_pid(pids: Iterable[int]) -> dict[int, int]:
    """Return processes of the host by their pids in the innermost namespace, without vanished ones."""
    return {status.inner_pid: pid for pid in pids if (status := walk.status_of(pid)) is not None}


def inner_pid_of(pid: int) -> int:
    """Return the pid in the innermost namespace; 0 if it has ended."""
    return max(_last_ids(_status(f"{pid}"), b"NSpid"), default=0)


def name_of(pid: int) -> str:
    """Return a process's own name, safe to show; empty if it has ended."""
    name = (walk.read(f"{pid}/comm") or b"").decode("utf-8", "replace").strip()
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def waits_unconfined(init_pid: int) -> bool:
    """Check that a container's first process only waits for confirmation that its network is confined.

    `init.c` blocks SIGUSR2 until then, to show it. The kernel shows the awaited signal as not blocked while
    it sleeps. A signal that is sent before would be lost (pid_namespaces(7)).
    """
    blocked = int(process_status.field(_status(f"{init_pid}"), b"SigBlk") or b"0", 16)
    return blocked in (_SHOWN, _SHOWN | _AWAITED)


def tree(root: int) -> tuple[int, ...]:
    """`root` and all its descendants, host pids, parents first; empty if it has ended."""
    return walk.tree(root, walk.EVERY).pids


def thread_states(pid: int) -> list[str]:
    """Return one letter per thread, as in /proc/PID/stat (proc(5)); empty if any of them has ended."""
    states: list[str] = []
    for thread in walk.threads(pid, walk.EVERY):
        fields = process_stat.fields(walk.read(f"{pid}/task/{thread}/stat", small=walk.SMALL) or b"")
        if not fields:
            return []
        states.append(fields[0].decode("ascii", "replace"))
    return states


def has_ended(pid: int) -> bool:
    """Check that no thread of a process will run any more; True if it has ended."""
    return all(state in "ZX" for state in thread_states(pid))


class FreezeWatch:
    """Reports when every task below a root is stopped by a tracer.

    CRIU stops tasks one by one and lets none go before it is done. Two equal scans in which all
    are stopped therefore mean that none can have been missed: a task not in the first scan
    could only have been created by one that was already stopped.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._previous: tuple[int, ...] | None = None

    def all_stopped(self) -> bool:
        """Scan once; True when this scan and the previous one agree that all are stopped."""
        pids = tree(self._root)
        stopped = bool(pids) and all(_stopped(pid) for pid in pids)
        agree = stopped and pids == self._previous
        self._previous = pids if stopped else None
        return agree


def _stopped(pid: int) -> bool:
    # "t" is a tracing stop; a zombie (Z) or dead (X) task cannot run any more.
    states = thread_states(pid)
    return bool(states) and all(state in "tZX" for state in states)


def highest_inner_pid(pids: Iterable[int]) -> int:
    """Return the highest process or thread id that processes use in their own PID namespace.

    Groups and sessions also count: they have the id of a process that can have ended, and whose stand-in
    gets it.
    """
    tasks = (f"{pid}/task/{thread}" for pid in pids for thread in walk.threads(pid, walk.EVERY))
    return max((number for task in tasks for number in _last_ids(_status(task), *_IDS)), default=0)


def _last_ids(status: bytes, *names: bytes) -> Iterator[int]:
    """Return the ids in the innermost namespace in a status (proc_pid_status(5))."""
    for name in names:
        words = process_status.field(status, name).split()
        if words and words[-1].isdigit():
            yield int(words[-1])


def _status(task: str) -> bytes:
    return walk.read(f"{task}/status", small=walk.SMALL) or b""
