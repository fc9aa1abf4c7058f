"""Facts about one process that are too slow, or too many, to report for every process."""

from __future__ import annotations

from typing import Any

from holdfast.runtime.guest.pulse import access, processes

_WANTED_LIMITS = {"Max open files": "open_files", "Max processes": "processes", "Max core file size": "core"}


def look(pid: int) -> dict[str, Any] | None:
    """Return the facts, or None if there is no such process. A fact that may not be read is None."""
    who = access.owner(pid)
    if who is None:
        return None
    folder = f"/proc/{pid}"
    with access.reading_as(*who):
        return {
            "cwd": access.link(f"{folder}/cwd"),
            "exe": access.link(f"{folder}/exe"),
            "memory": processes.parse_rollup(access.read(f"{folder}/smaps_rollup") or b""),
            "io": parse_io(access.read(f"{folder}/io") or b""),
            "limits": parse_limits(access.read(f"{folder}/limits") or b""),
            "status": processes.parse_status(access.read(f"{folder}/status") or b""),
            "waits_in": (access.read(f"{folder}/wchan") or b"").decode("ascii", "replace") or None,
        }


def parse_io(data: bytes) -> dict[str, int]:
    """Return bytes read and written, see proc_pid_io(5): by calls, and from and to storage."""
    names = {
        b"rchar": "read",
        b"wchar": "written",
        b"read_bytes": "read_from_disk",
        b"write_bytes": "written_to_disk",
    }
    found = {}
    for line in data.splitlines():
        name, _, value = line.partition(b":")
        if name in names and value.strip().isdigit():
            found[names[name]] = int(value)
    return found


def parse_limits(data: bytes) -> dict[str, int | None]:
    """Return the soft limits that programs run into, see proc_pid_limits(5); None is unlimited."""
    found: dict[str, int | None] = {}
    for line in data.decode("ascii", "replace").splitlines():
        for words, name in _WANTED_LIMITS.items():
            if line.startswith(words):
                soft = line[len(words) :].split()[0]
                found[name] = int(soft) if soft.isdigit() else None
    return found
