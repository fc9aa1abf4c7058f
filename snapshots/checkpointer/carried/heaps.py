"""The heaps that are worth a twin: memory that is written while the session runs again, see twins.py.

Pure: the text of /proc/PID/smaps (proc_pid_smaps(5)) in, ranges of addresses out. CRIU writes everything else
of a process, while it is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.procfs.memory_maps import Mapping

PAGE = 4096
LEAST = 8 << 20
"""Bytes of one heap: CRIU writes less in 3 ms."""
SPARSE = 32
"""Times as much address space as memory: finding the pages of a heap with more of it takes CRIU less time."""
LEAST_OF_PROCESS = 32 << 20
"""Bytes: for less, a twin costs as much time as it saves."""
MOST = 1024
"""Heaps of a capture; the same in guard_heaps.c."""
PROCESSES = 256
"""Twins of a capture; the same in guard_twins.c."""

_MAPPING = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ (\d+) *(.*)\n((?:[A-Z]\w*:.*\n)+)",
    re.MULTILINE,
)
_ANONYMOUS = re.compile(rb"^(?:Anonymous|Swap): +(\d+) kB$", re.MULTILINE)
_FLAGS = re.compile(rb"^VmFlags: (.*)$", re.MULTILINE)
_HEAP_NAMES = re.compile(rb"|\[heap\]|\[anon:.*\]")
# A child does not get it, or gets it empty (madvise(2)); a device owns it, or another process serves it;
# CRIU does not load it on demand if it is locked; huge pages and stacks are its business.
_STRANGE = frozenset(
    (b"dc", b"wf", b"io", b"pf", b"um", b"uw", b"ui", b"lo", b"ht", b"gd", b"sh", b"ss", b"dp")
)
# A process that serves page faults for another is asked about every child of that one.
_SERVED = frozenset((b"um", b"uw", b"ui"))


@dataclass(frozen=True, slots=True, order=True)
class Heap:
    """Addresses of one heap; `resident`: bytes of it that exist, in memory or swapped out."""

    start: int
    end: int
    resident: int


@dataclass(frozen=True, slots=True)
class HeapsOf:
    """The heaps of one process, and where it has executable memory from a file."""

    code: int
    heaps: tuple[Heap, ...]

    @property
    def resident(self) -> int:
        """Bytes."""
        return sum(heap.resident for heap in self.heaps)


def find(smaps: bytes) -> HeapsOf | None:
    """Return the heaps of a process for which a twin is worth while; None if it has none."""
    code, found = 0, []
    for start, end, permissions, inode, name, details in _MAPPING.findall(smaps):
        flags = _flags(details)
        if flags & _SERVED:
            return None
        if not code and permissions == b"r-xp" and inode != b"0":
            code = int(start, 16)
        if permissions != b"rw-p" or inode != b"0" or not _HEAP_NAMES.fullmatch(name) or _is_strange(flags):
            continue
        resident = sum(map(int, _ANONYMOUS.findall(details))) << 10
        if resident >= max(LEAST, (int(end, 16) - int(start, 16)) // SPARSE):
            found.append(Heap(int(start, 16), int(end, 16), resident))
    heaps = HeapsOf(code, tuple(found))
    return heaps if code and heaps.resident >= LEAST_OF_PROCESS else None


def now(one: HeapsOf, maps: Iterable[Mapping]) -> HeapsOf | None:
    """Return heaps with the addresses they have now; without those that are gone, None if none is left.

    Reading smaps takes 40 ms for each gigabyte, and maps next to none; but that lacks flags: `is_faithful`.
    """
    ends = {each.start: each.end for each in maps if each.permissions == "rw-p" and not each.inode}
    code = {each.start for each in maps if each.permissions == "r-xp" and each.inode}
    left = tuple(replace(heap, end=ends[heap.start]) for heap in one.heaps if heap.start in ends)
    return replace(one, heaps=left) if left and one.code in code else None


def is_faithful(one: HeapsOf, smaps: bytes) -> bool:
    """Return whether a twin, which has the flags of its process, was given all of the heaps."""
    same = {
        (int(start, 16), int(end, 16))
        for start, end, _, _, _, details in _MAPPING.findall(smaps)
        if not _is_strange(_flags(details))
    }
    return all((heap.start, heap.end) in same for heap in one.heaps)


def _flags(details: bytes) -> frozenset[bytes]:
    return frozenset(b" ".join(_FLAGS.findall(details)).split())


def _is_strange(flags: frozenset[bytes]) -> bool:
    return not flags or bool(flags & _STRANGE)


def affordable(found: Iterable[tuple[int, HeapsOf]], free: int) -> list[tuple[int, HeapsOf]]:
    """Return the processes for which `free` bytes suffice if all of their heaps change, largest first."""
    chosen: list[tuple[int, HeapsOf]] = []
    count = 0
    for pid, one in sorted(found, key=lambda item: -item[1].resident):
        if one.resident <= free and count + len(one.heaps) <= MOST and len(chosen) < PROCESSES:
            chosen.append((pid, one))
            free -= one.resident
            count += len(one.heaps)
    return chosen
