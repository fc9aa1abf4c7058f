"""Why nothing can be started, in words: no process is free, or no memory."""

from __future__ import annotations

import errno
import os

from holdfast.runtime.guest.pulse import cgroup_limits


def explained(error: Exception) -> str:
    """Return what an error says of a start that failed, with the limit that was reached if it was one."""
    number = getattr(error, "errno", None)
    if number == errno.ENOMEM:
        return "no memory is free"
    if number == errno.EAGAIN:
        return of_processes()
    return os.strerror(number).lower() if number else str(error)


def of_processes() -> str:
    """Return that no process can be started, with the session's limit."""
    pids = cgroup_limits.look()["pids"]
    counts = (
        f" (there are {pids['current']} of at most {pids['limit']}, threads included)"
        if pids["limit"]
        else ""
    )
    return f"no process is free{counts}; end some: the shell's `kill` needs none"


def free() -> int | None:
    """Return how many processes and threads can be started; None if there is no limit."""
    pids = cgroup_limits.look()["pids"]
    if pids["limit"] is None or pids["current"] is None:
        return None
    return max(0, int(pids["limit"]) - int(pids["current"]))
