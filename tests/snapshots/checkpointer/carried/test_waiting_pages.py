"""Which memory waits until it is touched: CRIU's entries are cut where heaps begin and end."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from holdfast.snapshots.checkpointer.carried import waiting_pages
from holdfast.snapshots.checkpointer.carried.heap_pages import LAZY, PRESENT

PAGE = 4096
ANONYMOUS, STACK, HEAP, FILE = 1 << 9, 1 << 1, 1 << 5, 1 << 6
PLAIN, LOCKED, GROWS_DOWN = 0x22, 0x2022, 0x122
LARGE = waiting_pages.LEAST


@dataclass
class Area:
    start: int
    end: int
    status: int = ANONYMOUS
    flags: int = PLAIN
    madv: int = 0


@dataclass
class Entry:
    vaddr: int = 0
    nr_pages: int = 0
    flags: int = 0

    def CopyFrom(self, other: Entry) -> None:  # noqa: N802  (of protobuf's messages)
        self.vaddr, self.nr_pages, self.flags = other.vaddr, other.nr_pages, other.flags


@pytest.mark.parametrize(
    ("area", "waits"),
    [
        (Area(0, LARGE), True),
        (Area(0, LARGE - PAGE), False),
        (Area(0, LARGE, ANONYMOUS | STACK), False),
        (Area(0, LARGE, ANONYMOUS | HEAP), False),
        (Area(0, LARGE, FILE), False),
        (Area(0, LARGE, flags=LOCKED), False),
        (Area(0, LARGE, flags=GROWS_DOWN), False),
        (Area(0, LARGE, madv=1 << 18), False),  # MADV_WIPEONFORK
        (Area(0, LARGE, madv=1 << 14), True),  # MADV_HUGEPAGE
    ],
)
def test_only_large_heaps_wait(area: Area, waits: bool) -> None:
    assert waiting_pages.heaps([area]) == ([(0, LARGE)] if waits else [])


def test_entries_are_cut_at_the_ends_of_heaps() -> None:
    entries = [
        Entry(0, 10, PRESENT | LAZY),
        Entry(20 * PAGE, 5, PRESENT),
        Entry(30 * PAGE, 4, PRESENT | LAZY),
    ]
    heaps = [(2 * PAGE, 5 * PAGE), (8 * PAGE, 22 * PAGE), (31 * PAGE, 99 * PAGE)]
    found = [
        (entry.vaddr // PAGE, entry.nr_pages, bool(entry.flags & LAZY), waits)
        for entry, waits in waiting_pages.marked(entries, heaps)
    ]
    assert found == [
        (0, 2, False, False),
        (2, 3, True, True),
        (5, 3, False, False),
        (8, 2, True, True),
        (20, 2, False, False),
        (22, 3, False, False),
        (30, 1, False, False),
        (31, 3, True, True),
    ]


def test_every_page_stays_once_in_its_order_and_waits_only_in_a_heap() -> None:
    """CRIU finds a page's content by the number of pages before it."""
    draw = random.Random(7)
    for _ in range(300):
        places = sorted(draw.sample(range(400), 2 * draw.randint(0, 6)))
        heaps = [(a * PAGE, b * PAGE) for a, b in zip(places[::2], places[1::2], strict=True)]
        entries, at = [], 0
        while at < 390:
            at += draw.randint(0, 9)
            count = draw.randint(1, 30)
            entries.append(Entry(at * PAGE, count, draw.choice((PRESENT, PRESENT | LAZY, LAZY, 0))))
            at += count
        before = [(e.vaddr + n * PAGE, e.flags) for e in entries for n in range(e.nr_pages)]
        marked = [*waiting_pages.marked(entries, heaps)]
        after = [(e.vaddr + n * PAGE, e.flags, w) for e, w in marked for n in range(e.nr_pages)]
        assert [address for address, _, _ in after] == [address for address, _ in before]
        for (address, old), (_, new, waits) in zip(before, after, strict=True):
            inside = any(begin <= address < end for begin, end in heaps)
            assert waits == bool(new & LAZY) == (inside and bool(old & LAZY))
            assert new & ~LAZY == old & ~LAZY
