"""Large heaps of processes, in the kernel's reports and in CRIU's images. Pure.

A capture copies the heaps that are worth a twin while the session runs again (`twins.py`); CRIU writes
everything else of a process, while it is frozen. The text of /proc/PID/smaps (proc_pid_smaps(5)) comes in,
ranges of addresses go out.

CRIU reads a process's pages in the order of its pagemap, which is that of addresses, so its file is written
once more with the heaps in it. Pages of zeros are left out: where a heap does not have a page, a program
reads zeros.

In a copy that is to answer soon, large heaps wait until they are touched; everything else is read when the
session is restored. The kernel lets only the process itself wait for missing memory; a different one that
reads it, such as ps(1) or a debugger, gets an error. So what is usually read from outside, stacks,
arguments and small heaps, is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.procfs.memory_maps import Mapping
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

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
_TRACKED = frozenset((b"uw",))
PAGEMAP_ENTRY = 8
"""Bytes of a page's entry in /proc/PID/pagemap."""
PRESENT, LAZY, IN_EARLIER = 4, 2, 1
"""PE_PRESENT, PE_LAZY, PE_PARENT of CRIU's pagemap.proto: it has a page in the file, which may be loaded on
demand; or it is in the images of the capture before (`criu/earlier_images.py`)."""
MOST_OF_ENTRY = 1 << 20
"""Bytes that one entry describes: the size of a pipe, as CRIU has it."""
# The highest byte of an entry: bit 63 present, 62 swapped out, 61 of a file, 58 a guard
# (Documentation/admin-guide/mm/pagemap.rst of Linux).
_EXISTS = bytes(int(bool(value & 0xC0) and not value & 0x24) for value in range(256))
_RUN = re.compile(rb"\x01+")
LEAST_WAITING = 8 << 20
"""Bytes of addresses of one heap."""
LEAST_OF_WAITING_TREE = 32 << 20
"""Bytes that must wait, or it is not worth keeping a process for them."""
# Of CRIU's include/image.h: the kinds of a mapping.
_STACK, _HEAP, _PRIVATE = 1 << 1, 1 << 5, 1 << 9
_GROWS_DOWN, _LOCKED = 0x100, 0x2000  # mmap(2)
_WIPED = 1 << 18
"""Of the advice for a mapping: MADV_WIPEONFORK (madvise(2)). A child would be given what it must not see."""


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


def find(smaps: bytes, *, tracked: bool = False) -> HeapsOf | None:
    """Return the heaps of a process for which a twin is worth while; None if it has none.

    `tracked`: it is this checkpointer that has writes to its memory noted (`dump/write_tracking.py`).
    """
    code, found = 0, []
    for start, end, permissions, inode, name, details in _MAPPING.findall(smaps):
        flags = _flags(details) - (_TRACKED if tracked else frozenset())
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
    """Return heaps with their present addresses; without vanished ones, None if none is left.

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


@dataclass(frozen=True, slots=True)
class WrittenPages:
    """Pages that CRIU wrote: `size` bytes at `offset` of its file, described by these entries."""

    entries: tuple[Any, ...]
    offset: int
    size: int


def present_pages(pagemap: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield address and bytes of each run of pages that exist; `pagemap` begins at address `start`."""
    for run in _RUN.finditer(pagemap[PAGEMAP_ENTRY - 1 :: PAGEMAP_ENTRY].translate(_EXISTS)):
        yield start + run.start() * PAGE, len(run[0]) * PAGE


def split_pages(entries: Sequence[Any], starts: Sequence[int]) -> list[WrittenPages]:
    """Return CRIU's pages, cut at the addresses where heaps begin: one part more than there are heaps.

    Raises:
        ImagesUnreadable: an address is within what CRIU wrote.
    """
    parts: list[WrittenPages] = []
    offset = number = 0
    for start in (*starts, 1 << 64):
        kept, size = [], 0
        while number < len(entries) and entries[number].vaddr < start:
            entry = entries[number]
            if entry.vaddr + entry.nr_pages * PAGE > start:
                raise ImagesUnreadable("memory that should be copied later is already present")
            kept.append(entry)
            size += entry.nr_pages * PAGE if entry.flags & PRESENT else 0
            number += 1
        parts.append(WrittenPages(tuple(kept), offset, size))
        offset += size
    return parts


def page_entries(address: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield address and number of pages of each entry that describes a run of pages."""
    for at in range(address, address + size, MOST_OF_ENTRY):
        yield at, min(MOST_OF_ENTRY, address + size - at) // PAGE


def without_zeros(data: bytearray, size: int, zeros: bytes = bytes(PAGE)) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each run of pages, in the first `size` bytes, that do not consist of zeros."""
    begin = -1
    for offset in range(0, size, PAGE):
        if not data.startswith(zeros, offset):
            begin = offset if begin < 0 else begin
        elif begin >= 0:
            yield begin, offset - begin
            begin = -1
    if begin >= 0:
        yield begin, size - begin


def waiting_heaps(areas: Iterable[Any]) -> list[tuple[int, int]]:
    """Return the addresses of waiting heaps, of a process's mappings in their order (`mm-*.img`)."""
    return [
        (area.start, area.end)
        for area in areas
        if area.status & _PRIVATE
        and not area.status & (_STACK | _HEAP)
        and not area.flags & (_GROWS_DOWN | _LOCKED)
        and not area.madv & _WIPED
        and area.end - area.start >= LEAST_WAITING
    ]


def mark_waiting(entries: Iterable[Any], waiting: Sequence[tuple[int, int]]) -> Iterator[tuple[Any, bool]]:
    """Yield the entries of a pagemap, cut where heaps begin and end, and whether each of them waits.

    Those that do not wait are no longer marked as such that CRIU may load on demand.
    """
    ranges = iter(waiting)
    begin, end = next(ranges, (1 << 64, 1 << 64))
    for entry in entries:
        at, stop = entry.vaddr, entry.vaddr + entry.nr_pages * PAGE
        while at < stop:
            while end <= at:
                begin, end = next(ranges, (1 << 64, 1 << 64))
            inside = begin <= at
            until = min(stop, end if inside else begin)
            part = type(entry)()
            part.CopyFrom(entry)
            part.vaddr, part.nr_pages = at, (until - at) // PAGE
            waits = inside and bool(entry.flags & LAZY)
            if not waits:
                part.flags = entry.flags & ~LAZY
            yield part, waits
            at = until
