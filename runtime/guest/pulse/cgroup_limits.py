"""Memory, processors and processes of the session against their limits, as its control group reports them.

Says also why nothing can be started, when no process is free or no memory. The parsers are pure; `look` reads
the few files they parse. A container sees the files of its own group below /sys/fs/cgroup, one folder for
each controller in version 1 and none in version 2, see cgroups(7).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.access import read

ROOT = "/sys/fs/cgroup"
UNLIMITED = 1 << 60
"""The value by which version 1 reports a missing limit: the largest number of pages, in bytes."""

Read = Callable[[str], bytes | None]


def look(
    root: str = ROOT, proc: str = "/proc", read: Read = lambda path: read(path, 1 << 14)
) -> dict[str, Any]:
    """Return memory, processors, processes and pressure. A value that the kernel does not report is None."""
    found = _second(root, read) if read(f"{root}/cgroup.controllers") is not None else _first(root, read)
    machine = found.pop("pressure", None)
    found["pressure"] = machine or {
        name: pressure(read(f"{proc}/pressure/{name}")) for name in ("memory", "cpu", "io")
    }
    # Version 1 has no pressure per group; that of the whole machine is better than none, if labeled as such.
    found["pressure_of"] = "session" if machine else "machine"
    found["processors"] = os.cpu_count()
    return found


def _first(root: str, read: Read) -> dict[str, Any]:
    memory, pids, cpu = f"{root}/memory", f"{root}/pids", f"{root}/cpu"
    stat = table(read(f"{memory}/memory.stat"))
    quota, period = number(read(f"{cpu}/cpu.cfs_quota_us")), number(read(f"{cpu}/cpu.cfs_period_us"))
    throttled = table(read(f"{cpu}/cpu.stat"))
    used = number(read(f"{root}/cpuacct/cpuacct.usage"))
    return {
        "version": 1,
        "memory": _memory(
            usage=number(read(f"{memory}/memory.usage_in_bytes")),
            limit=number(read(f"{memory}/memory.limit_in_bytes")),
            peak=number(read(f"{memory}/memory.max_usage_in_bytes")),
            anonymous=stat.get("total_rss", stat.get("rss")),
            cache=stat.get("total_cache", stat.get("cache")),
            reclaimable=stat.get("total_inactive_file", stat.get("inactive_file")),
            oom_kills=table(read(f"{memory}/memory.oom_control")).get("oom_kill"),
        ),
        "pids": _pids(read, pids),
        "cpu": {
            "limit": round(quota / period, 3) if quota and period and quota > 0 else None,
            "seconds": None if used is None else round(used / 1e9, 3),
            "throttled_seconds": round(throttled.get("throttled_time", 0) / 1e9, 3),
        },
    }


def _second(root: str, read: Read) -> dict[str, Any]:
    stat, cpu = table(read(f"{root}/memory.stat")), table(read(f"{root}/cpu.stat"))
    quota, _, period = (read(f"{root}/cpu.max") or b"max").strip().partition(b" ")
    pressures = {name: pressure(read(f"{root}/{name}.pressure")) for name in ("memory", "cpu", "io")}
    return {
        "version": 2,
        "memory": _memory(
            usage=number(read(f"{root}/memory.current")),
            limit=number(read(f"{root}/memory.max")),
            peak=number(read(f"{root}/memory.peak")),
            anonymous=stat.get("anon"),
            cache=stat.get("file"),
            reclaimable=stat.get("inactive_file"),
            oom_kills=table(read(f"{root}/memory.events")).get("oom_kill"),
        ),
        "pids": _pids(read, root),
        "cpu": {
            "limit": round(int(quota) / int(period), 3) if quota.isdigit() and period.isdigit() else None,
            "seconds": round(cpu["usage_usec"] / 1e6, 3) if "usage_usec" in cpu else None,
            "throttled_seconds": round(cpu.get("throttled_usec", 0) / 1e6, 3),
        },
        "pressure": pressures if any(pressures.values()) else None,
    }


def _memory(
    *, usage: int | None, reclaimable: int | None, limit: int | None, **others: int | None
) -> dict[str, Any]:
    """Return memory, processors, processes and pressure. A value that the kernel does not report is None.

    `used` leaves out file pages that have not been used lately: they are reclaimed before any limit is hit.
    """
    used = None if usage is None else max(0, usage - (reclaimable or 0))
    bounded = limit if limit is not None and limit < UNLIMITED else None
    return {"used": used, "usage": usage, "limit": bounded, **others}


def _pids(read: Read, folder: str) -> dict[str, Any]:
    return {
        "current": number(read(f"{folder}/pids.current")),
        "limit": number(read(f"{folder}/pids.max")),
        "refused": table(read(f"{folder}/pids.events")).get("max"),
    }


def number(data: bytes | None) -> int | None:
    """Return the number a file holds; None for `max`, or if there is no number."""
    try:
        return int(data or b"")
    except ValueError:
        return None


def table(data: bytes | None) -> dict[str, int]:
    """Return a flat-keyed file, such as memory.stat."""
    found = {}
    for line in (data or b"").splitlines():
        name, _, value = line.partition(b" ")
        if value.strip().isdigit():
            found[name.decode("ascii", "replace")] = int(value)
    return found


def pressure(data: bytes | None) -> dict[str, float] | None:
    """Return the shares of the last 10 and 60 s in which some, or all, tasks were stalled on a resource.

    In percent, see Documentation/accounting/psi.rst of Linux.
    """
    found: dict[str, float] = {}
    for line in (data or b"").decode("ascii", "replace").splitlines():
        who, *pairs = line.split()
        values = dict(pair.partition("=")[::2] for pair in pairs)
        for span in ("avg10", "avg60"):
            try:
                found[f"{who}_{span}"] = float(values.get(span, ""))
            except ValueError:
                continue
    return found or None


def explain_shortage(error: Exception) -> str:
    """Return the explanation of a failed start, with the limit that was reached if it was one."""
    number = getattr(error, "errno", None)
    if number == errno.ENOMEM:
        return "no memory is free"
    if number == errno.EAGAIN:
        return lacks_processes()
    return os.strerror(number).lower() if number else str(error)


def lacks_processes() -> str:
    """Return that no process can be started, with the session's limit and the largest group."""
    from holdfast.runtime.guest.pulse import origins, process_shortage

    pids = look()["pids"]
    counts = (
        f" (there are {pids['current']} of at most {pids['limit']}, threads included)"
        if pids["limit"]
        else ""
    )
    found = process_shortage.largest(origins.processes(), own_groups())
    if found is None:
        return f"no process is free{counts}; end some: the shell's `kill` needs none"
    return (
        f"no process is free{counts}; {found.members} are in process group {found.group} "
        f"({access.command(found.member, 80)}): `{found.remedy}` in the shell ends them, and needs none"
    )


def own_groups() -> frozenset[int]:
    """Return the process groups of the supervisor and its parent."""
    return frozenset((os.getpgrp(), os.getpgid(os.getppid())))


def free_processes() -> int | None:
    """Return how many processes and threads can be started; None if there is no limit."""
    pids = look()["pids"]
    if pids["limit"] is None or pids["current"] is None:
        return None
    return max(0, int(pids["limit"]) - int(pids["current"]))
