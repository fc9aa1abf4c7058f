"""Which files of a session are mapped so that a write needs no system call.

Such a write changes the file's times only when its page was clean before: the times of a file that is mapped
shared and writable say nothing about whether it has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from holdfast.procfs import bounded, walk

MAX_TEXT = 64 << 20
"""Characters of all those paths together."""
_SHARED = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ .w.s [0-9a-f]+ \S+ [1-9]\d* +/(.*)$", re.MULTILINE)


def mapped(pids: Iterable[int], proc: Path = Path("/proc")) -> set[str]:
    """Return paths, relative to the root, of files that any of these processes has mapped shared and
    writable.

    Raises:
        TooLong: they exceed the limit. Files left out would be torn in the copy.
    """
    found: set[str] = set()
    room = MAX_TEXT
    for pid in pids:
        try:
            for lines in bounded.lines(proc / str(pid) / "maps", walk.MAX_MAPS):
                new = parse(lines) - found
                room -= sum(map(len, new))
                if room < 0:
                    raise bounded.TooLong("what the session has mapped for writing", MAX_TEXT)
                found |= new
        except bounded.TooLong:
            raise
        except OSError:
            continue
    return found


def parse(maps: bytes) -> set[str]:
    """Parse some lines of proc_pid_maps(5) likewise."""
    if b"s " not in maps:
        return set()
    # Only a line break is escaped in there.
    return {
        path.replace(b"\\012", b"\n").decode("utf-8", "surrogateescape") for path in _SHARED.findall(maps)
    }
