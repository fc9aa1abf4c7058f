"""Which memory of a restored session waits until it is touched: large heaps, in CRIU's images. Pure.

Everything else is read when the session is restored. The kernel lets only the process itself wait for missing
memory; another one that reads it, such as ps(1) or a debugger, gets an error. So what is usually read from
outside, stacks, arguments and small heaps, is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.snapshots.checkpointer.carried.heap_pages import LAZY
from holdfast.snapshots.checkpointer.carried.heaps import PAGE

LEAST = 8 << 20
"""Bytes of addresses of one heap."""
LEAST_OF_TREE = 32 << 20
"""Bytes that must wait, or it is not worth keeping a process for them."""
# Of CRIU's include/image.h: the kinds of a mapping.
_STACK, _HEAP, _PRIVATE = 1 << 1, 1 << 5, 1 << 9
_GROWS_DOWN, _LOCKED = 0x100, 0x2000  # mmap(2)
_WIPED = 1 << 18
"""Of the advice for a mapping: MADV_WIPEONFORK (madvise(2)). A child would be given what it must not see."""


def heaps(areas: Iterable[Any]) -> list[tuple[int, int]]:
    """Return the addresses of the heaps that wait, of a process's mappings in their order (`mm-*.img`)."""
    return [
        (area.start, area.end)
        for area in areas
        if area.status & _PRIVATE
        and not area.status & (_STACK | _HEAP)
        and not area.flags & (_GROWS_DOWN | _LOCKED)
        and not area.madv & _WIPED
        and area.end - area.start >= LEAST
    ]


def marked(entries: Iterable[Any], waiting: Sequence[tuple[int, int]]) -> Iterator[tuple[Any, bool]]:
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
