"""What /proc tells of a shell that does not answer: whether it is at work, and whether it is still ours.

It looks and decides nothing; it is asked only when a patience ends, so it may read all of /proc.
"""

from __future__ import annotations

import signal
from enum import StrEnum

from holdfast.runtime.guest.layout import MARKS_LIBRARY
from holdfast.runtime.guest.pulse import access

_WORKING = ("R", "D")
_MAPS = 1 << 20


def at_work(session: int) -> bool:
    """Return whether a process of that terminal session runs, or would if it were given a processor."""
    for pid in access.numbers("/proc"):
        found = access.stat(pid)
        if found and found.session == session and found.state in _WORKING:
            return True
    return False


class Group(StrEnum):
    """What becomes of a signal to a process group."""

    ENDED = "ended"
    BEING_STARTED = "being started"
    RUNS = "runs"


def group_state(group: int, shell: int) -> Group:
    """Return whether all in a process group are programs by now, and not still copies of the shell."""
    kept = access.read(f"/proc/{shell}/cmdline")
    found = Group.ENDED
    for pid in access.numbers("/proc"):
        status = access.stat(pid)
        if status is None or status.group != group or status.state in ("Z", "X"):
            continue
        if pid != shell and access.read(f"/proc/{pid}/cmdline") == kept and _catches_interrupt(pid):
            return Group.BEING_STARTED
        found = Group.RUNS
    return found


def _catches_interrupt(pid: int) -> bool:
    """Return whether a process has a handler for SIGINT: a copy has its shell's until it is set up."""
    for line in (access.read(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1)
    return False


def replaced_by(pid: int) -> str:
    """Return what a shell became that makes no marks any more, or an empty string if it makes them."""
    who = access.owner(pid)
    if who is None:
        return ""
    with access.reading_as(*who):
        program = access.link(f"/proc/{pid}/exe")
        maps = _whole(f"/proc/{pid}/maps")
    if program is None or maps is None or MARKS_LIBRARY.name.encode() in maps:
        return ""
    name = program.removesuffix(" (deleted)").rpartition("/")[2]
    return "a bash that was started without its settings" if name == "bash" else name


def _whole(path: str) -> bytes | None:
    """Return all of a file of /proc, which gives a page at a time."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (as in access.py: a Path costs)
            parts: list[bytes] = []
            while (part := file.read(_MAPS)) and len(parts) < _MAPS // 4096:
                parts.append(part)
            return b"".join(parts)
    except OSError:
        return None
