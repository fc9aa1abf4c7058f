"""Processes as the pulse reports them, and more about one: facts too slow, or too many, to report for each.

Pure, texts of `/proc` in and rows out, but for `look_closely`, which reads what concerns one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.procfs import process_stat, process_status
from holdfast.procfs.process_stat import Stat
from holdfast.runtime.guest.pulse import access

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "disk",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "I": "idle",
    "X": "dead",
}
RECENT = 60.0
"""Seconds for which an earlier sample is meaningful for a process's present activity."""
MAX_COMMAND = 4096
_WANTED_LIMITS = {"Max open files": "open_files", "Max processes": "processes", "Max core file size": "core"}


class Usage:
    """Processor times of processes at the last sample."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, float], tuple[float, float]] = {}

    def percent(self, stat: Stat, at: float) -> tuple[float, float]:
        """Return the percentage of one processor and the seconds it was measured over.

        `at` is the current time of the boot clock. The percentage is measured since the last sample if that
        is recent, else over the life of the process, as ps(1) does.
        """
        cpu, before = self._seen.get((stat.pid, stat.start), (0.0, stat.start))
        span = at - before
        if not 0.1 <= span <= RECENT or stat.cpu < cpu:
            cpu, span = 0.0, at - stat.start
        return (round(100 * (stat.cpu - cpu) / span, 1) if span > 0 else 0.0, round(max(span, 0.0), 3))

    def looked(self, stats: list[Stat], at: float) -> None:
        """Store a sample."""
        self._seen = {(stat.pid, stat.start): (stat.cpu, at) for stat in stats}


def row(
    stat: Stat,
    *,
    uid: int,
    user: str,
    command: str,
    usage: tuple[float, float],
    at: float,
    origin: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the report of a process."""
    return {
        "pid": stat.pid,
        "ppid": stat.parent,
        "group": stat.group,
        "session": stat.session,
        "state": STATES.get(stat.state, stat.state),
        "name": stat.name,
        "command": command or f"[{stat.name}]",
        "uid": uid,
        "user": user,
        "terminal": terminal_name(stat.terminal),
        "cpu_seconds": round(stat.cpu, 2),
        "cpu_percent": usage[0],
        "cpu_over": usage[1],
        "resident": stat.resident,
        "virtual": stat.virtual,
        "threads": stat.threads,
        "age": round(max(0.0, at - stat.start), 2),
        "origin": origin,
    }


def terminal_name(device: int) -> str | None:
    """Return the name of a terminal below /dev from its number, see proc_pid_stat(5), tty_nr."""
    if device == 0:
        return None
    major, minor = process_stat.device(device)
    if (number := process_stat.pseudo_terminal(major, minor)) is not None:
        return f"pts/{number}"
    return f"tty{minor}" if major == 4 else f"{major}:{minor}"


def command_line(data: bytes) -> str:
    """Return the arguments of a process on one line, arguments with blanks in quotes."""
    words = data[:MAX_COMMAND].rstrip(b"\0").decode("utf-8", "replace").split("\0")
    return " ".join(
        f"'{word}'" if len(words) > 1 and (not word or " " in word) else word for word in words
    ).strip()


def parse_rollup(data: bytes) -> dict[str, int]:
    """Return bytes of memory by kind from `smaps_rollup`, see proc_pid_smaps(5)."""
    wanted = {b"Pss": "proportional", b"Private_Dirty": "private_dirty", b"Swap": "swap", b"Shmem": "shared"}
    found = {}
    for line in data.splitlines()[1:]:
        name, _, rest = line.partition(b":")
        words = rest.split()
        if name in wanted and words and words[0].isdigit():
            found[wanted[name]] = int(words[0]) << 10
    return found


def parse_status(data: bytes) -> dict[str, int]:
    """Return the real user id and the context switches from `status`."""
    wanted = {
        "real_uid": b"Uid",
        "switches": b"voluntary_ctxt_switches",
        "forced_switches": b"nonvoluntary_ctxt_switches",
    }
    found = {name: process_status.field(data, field).split() for name, field in wanted.items()}
    return {name: int(words[0]) for name, words in found.items() if words and words[0].isdigit()}


def look_closely(pid: int) -> dict[str, Any] | None:
    """Return the facts, or None if there is no such process. An unreadable fact is None."""
    who = access.owner(pid)
    if who is None:
        return None
    folder = f"/proc/{pid}"
    with access.reading_as(*who):
        return {
            "cwd": access.link(f"{folder}/cwd"),
            "exe": access.link(f"{folder}/exe"),
            "memory": parse_rollup(access.read(f"{folder}/smaps_rollup") or b""),
            "io": parse_io(access.read(f"{folder}/io") or b""),
            "limits": parse_limits(access.read(f"{folder}/limits") or b""),
            "status": parse_status(access.read(f"{folder}/status") or b""),
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
