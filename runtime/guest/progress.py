"""What /proc tells of a shell that does not answer: whether it is at work, and whether it is still ours.

It looks and decides nothing; it is asked only when a patience ends, so it may read all of /proc.
"""

from __future__ import annotations

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


def alive(pid: int) -> bool:
    """Return whether a process is there and has not ended."""
    found = access.stat(pid)
    return found is not None and found.state not in ("Z", "X")


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
