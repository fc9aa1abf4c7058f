"""The pages of a process over the captures that a snapshot reaches back to: each in the last that has it.

Pure: the caller reads the images, and judges missing pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.snapshots.checkpointer.record import page_ranges
from holdfast.snapshots.checkpointer.record.earlier_names import MOST, named
from holdfast.snapshots.checkpointer.record.page_ranges import Range

PAGE = 4096
IN_PARENT = 1
PRESENT = 4
"""Flags of an entry (CRIU's pagemap.proto): its pages are in another snapshot; they are in this one."""

PlacedPart = tuple[int, int, int, int]
"""Pages in a file: their position there, their address, their bytes, and the flags of their entry."""


@dataclass(frozen=True, slots=True)
class CapturedPages:
    """The pages that are read from one capture, `captures` before the last one.

    `head` is that of its map of pages, `file` the name of the file with its pages. `left` are the pages
    that earlier captures have to have, `missing` those that this one had to have.
    """

    captures: int
    head: Any
    file: str
    parts: list[PlacedPart]
    left: list[Range]
    missing: list[Range]


def follow(read: Callable[[str], Sequence[Any]], name: str) -> Iterator[CapturedPages]:
    """Yield what each capture has of a process, the last one first, until nothing is left.

    Args:
        read: returns the messages of an image; none if there is no such image, which ends it as well.
        name: the name of the map of pages.
    """
    wanted: list[Range] = [(0, 1 << 64)]
    for captures in range(MOST + 1):
        listed = read(named(captures, name))
        if not listed:
            return
        head, *entries = listed
        parts = [*located(entries, wanted)]
        here = [(address, address + size) for _, address, size, _ in parts]
        earlier = page_ranges.joined(sorted(range_of(one) for one in entries if one.flags & IN_PARENT))
        known = page_ranges.joined(sorted([*here, *earlier]))
        missing = page_ranges.without(wanted, known) if captures else []
        wanted = page_ranges.common(wanted, earlier)
        pages = named(captures, f"pages-{head.pages_id}.img")
        yield CapturedPages(captures, head, pages, parts, wanted, missing)
        if not wanted:
            return


def located(entries: Iterable[Any], wanted: Sequence[Range]) -> Iterator[PlacedPart]:
    """Yield the pages of these addresses that are in the file of an image.

    The entries are in the order of their addresses, as CRIU has them.
    """
    position = first_left = 0
    for one in entries:
        if not one.flags & PRESENT or one.flags & IN_PARENT:
            continue
        start, end = range_of(one)
        while first_left < len(wanted) and wanted[first_left][1] <= start:
            first_left += 1
        for number in range(first_left, len(wanted)):
            first, last = max(start, wanted[number][0]), min(end, wanted[number][1])
            if first >= last:
                break
            yield position + first - start, first, last - first, one.flags
        position += end - start


def range_of(entry: Any) -> Range:
    """Return the addresses of an entry."""
    return int(entry.vaddr), int(entry.vaddr) + (entry.nr_pages or entry.compat_nr_pages) * PAGE
