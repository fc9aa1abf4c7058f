"""The processes to kill: those of one home's checkpointer, by their work."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from holdfast import Holdfast
from holdfast.procfs import process_stat

VICTIMS = ("criu", "worker", "checkpointer", "controller")
"""CRIU itself; the process that drives it; their whole container; the process that asked for it all."""


def find(holdfast: Holdfast, victim: str) -> list[int]:
    """Return the pids of the processes meant; the caller that started the controller knows its pid."""
    mains = {
        state.pid: container
        for container in holdfast.engine.containers(
            holdfast_home=holdfast.home.digest, holdfast_role="checkpointer"
        )
        if (state := holdfast.engine.inspect(container)) is not None and state.running
    }
    if victim == "checkpointer":
        return list(mains)
    found = []
    for main in mains:
        for worker in _children(main):
            if victim == "worker":
                found.append(worker)
            else:
                found += [pid for pid in _children(worker) if _name(pid) == "criu"]
    return found


def kill(pid: int) -> bool:
    """End a process at once; False if it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def traced(container_pid: int) -> int:
    """Return the number of a session's tasks that a tracer has stopped."""
    return sum(_state(pid) == "t" for pid in _tree(container_pid))


def _tree(root: int) -> list[int]:
    found = [root]
    for pid in found:
        found += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _state(pid: int) -> str:
    with suppress(OSError):
        return process_stat.fields(Path(f"/proc/{pid}/stat").read_bytes())[0].decode()
    return ""
