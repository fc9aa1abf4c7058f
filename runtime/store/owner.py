"""Checks whether the process that started an operation still exists.

A pid alone says little, since it is reused. The start time of the process, with the boot it counts from,
distinguishes two processes of one pid.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.procfs import process_stat


def start_of(pid: int) -> str | None:
    """Return boot and start time (in clock ticks) of a process; None if the process has ended or is a
    zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # The state is the first field after the name, the start time the 20th.
    fields = process_stat.fields(stat)
    if fields[0] in (b"Z", b"X"):
        return None
    return f"{boot[:8]}:{int(fields[19])}"


def alive(pid: int, start: str) -> bool:
    """Check whether the process that was started then under this pid still runs."""
    return start_of(pid) == start
