"""The memory that sessions hold, as the kernel counts it for their processes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from holdfast import Session

_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


def held(sessions: Iterable[Session]) -> int:
    """Return the bytes of all processes in the containers of sessions, shared pages counted once.

    Those that serve memory on demand are in the same control groups, and so among them (proc_pid_smaps(5)).

    Raises:
        PermissionError: this process may not examine others.
    """
    containers = [str(session.row.container_id) for session in sessions]
    total = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            group = (process / "cgroup").read_text()
            if any(container in group for container in containers):
                total += int(_PSS.findall((process / "smaps_rollup").read_text())[0]) << 10
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue  # it has ended
    return total
