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
    if number != errno.EAGAIN and "start new thread" not in str(error):
        return os.strerror(number).lower() if number else str(error)
    pids = cgroup_limits.look()["pids"]
    counts = f" (there are {pids['current']} of at most {pids['limit']})" if pids["limit"] else ""
    return f"no process is free{counts}; end some: `kill` and `jobs` need none, nor does `holdfast kill`"
