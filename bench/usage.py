"""What processes use, those of sessions among them, as the kernel counts it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from holdfast import Session

_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)
_TICKS = os.sysconf("SC_CLK_TCK")


def processes(sessions: Iterable[Session]) -> Iterator[Path]:
    """Yield the folders in /proc of all processes in the containers of sessions.

    Those that serve memory on demand are in the same control groups, and so among them. One may end at any
    time.
    """
    containers = [str(session.row.container_id) for session in sessions]
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                group = (process / "cgroup").read_text()
                if any(container in group for container in containers):
                    yield process


def held(sessions: Iterable[Session]) -> int:
    """Return the bytes that the processes of sessions hold, shared pages counted once (proc_pid_smaps(5)).

    Raises:
        PermissionError: this process may not examine others.
    """
    total = 0
    for process in processes(sessions):
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):
            total += memory_of(process)
    return total


def memory_of(process: Path) -> int:
    """Return the bytes that a process holds, its share of shared pages included.

    Args:
        process: its folder in /proc.

    Raises:
        PermissionError: this process may not examine it.
        FileNotFoundError, ProcessLookupError, IndexError: it has ended.
    """
    return int(_PSS.findall((process / "smaps_rollup").read_text())[0]) << 10


def spent(sessions: Iterable[Session]) -> float:
    """Return the seconds of processor time that the processes of sessions have had (proc_pid_stat(5))."""
    total = 0.0
    for process in processes(sessions):
        with suppress(FileNotFoundError, ProcessLookupError):
            total += spent_by(process)
    return total


def spent_by(process: Path) -> float:
    """Return the seconds of processor time that one process has had.

    Args:
        process: its folder in /proc.

    Raises:
        FileNotFoundError, ProcessLookupError: it has ended.
    """
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
