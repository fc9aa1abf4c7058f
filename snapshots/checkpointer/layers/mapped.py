"""Which files of a session are mapped so that a write needs no system call.

Such a write changes the file's times only when its page was clean before: the times of a file that is mapped
shared and writable say nothing about whether it has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_SHARED = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ .w.s [0-9a-f]+ \S+ [1-9]\d* +/(.*)$", re.MULTILINE)


def mapped(pids: Iterable[int], proc: Path = Path("/proc")) -> set[str]:
    """Paths, relative to the root, of files that any of these processes has mapped shared and writable."""
    found: set[str] = set()
    for pid in pids:
        try:
            maps = (proc / str(pid) / "maps").read_bytes()
        except OSError:
            continue
        found |= parse(maps)
    return found


def parse(maps: bytes) -> set[str]:
    """The same of the text of one proc_pid_maps(5)."""
    if b"s " not in maps:
        return set()
    # Only a line break is escaped in there.
    return {
        path.replace(b"\\012", b"\n").decode("utf-8", "surrogateescape") for path in _SHARED.findall(maps)
    }
