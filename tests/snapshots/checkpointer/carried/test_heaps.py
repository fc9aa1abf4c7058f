"""Memory that is copied later, or waits until it is touched, and the place of its pages in CRIU's images."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.procfs import memory_maps
from holdfast.snapshots.checkpointer.carried import heaps
from holdfast.snapshots.checkpointer.carried.heaps import LAZY, PAGE, PRESENT, Heap, HeapsOf
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

CODE = "00400000-00420000 r-xp 00001000 08:01 1234 /usr/bin/program"
BIG = "7f0000000000-7f0004000000 rw-p 00000000 00:00 0 "
ORDINARY = "rd wr mr mw me ac"
ANONYMOUS, STACK, HEAP, FILE = 1 << 9, 1 << 1, 1 << 5, 1 << 6
PLAIN, LOCKED, GROWS_DOWN = 0x22, 0x2022, 0x122
LARGE = heaps.LEAST_WAITING


def mapping(line: str, anonymous: int, flags: str = ORDINARY, swap: int = 0) -> str:
    return (
        f"{line}\nSize: 9 kB\nRss: {anonymous} kB\nAnonymous: {anonymous} kB\nAnonHugePages: 0 kB\n"
        f"Swap: {swap} kB\nSwapPss: 0 kB\nLocked: 0 kB\nTHPeligible: 1\nVmFlags: {flags} \n"
    )


def found(*mappings: str) -> HeapsOf | None:
    return heaps.find("".join(mappings).encode())


def test_large_anonymous_memory_is_found() -> None:
    """Whatever its name; swapped-out memory counts."""
    named = "7f1000000000-7f1004000000 rw-p 00000000 00:00 0                          [anon:glibc: malloc]"
    heap = "00a00000-02a00000 rw-p 00000000 00:00 0                          [heap]"
    one = found(mapping(CODE, 8), mapping(heap, 8192), mapping(BIG, 20480, swap=4096), mapping(named, 9000))
    assert one == HeapsOf(
        0x400000,
        (
            Heap(0xA00000, 0x2A00000, 8192 << 10),
            Heap(0x7F0000000000, 0x7F0004000000, 24576 << 10),
            Heap(0x7F1000000000, 0x7F1004000000, 9000 << 10),
        ),
    )


@pytest.mark.parametrize(
    "line",
    [
        BIG.replace("rw-p", "rw-s"),
        BIG.replace("rw-p", "rwxp"),
        BIG.replace("rw-p", "r--p"),
        BIG.replace("00:00 0", "08:01 77 /srv/data"),
        f"{BIG}[stack]",
        f"{BIG}/memfd:x (deleted)",
    ],
)
def test_other_memory_is_not(line: str) -> None:
    """Memory that is shared, executable, read-only, of a file or a stack is left to CRIU."""
    assert found(mapping(CODE, 8), mapping(line, 65536)) is None


@pytest.mark.parametrize("flag", ["dc", "wf", "io", "pf", "lo", "ht", "gd", "sh"])
def test_memory_withheld_from_children_and_special_memory_are_not_heaps(flag: str) -> None:
    """Each flag of such memory excludes it."""
    assert found(mapping(CODE, 8), mapping(BIG, 65536, f"{ORDINARY} {flag}")) is None


def test_a_process_whose_faults_are_served_has_no_twin() -> None:
    """Its server would be asked about the twin (userfaultfd(2), UFFD_FEATURE_EVENT_FORK)."""
    served = "7f2000000000-7f2000001000 rw-p 00000000 00:00 0"
    assert found(mapping(CODE, 8), mapping(BIG, 65536), mapping(served, 4, f"{ORDINARY} um")) is None


def test_there_must_be_code_of_a_file_and_flags() -> None:
    """Text that cannot be read as a process's memory does not have a heap."""
    anonymous = CODE.replace("08:01 1234 /usr/bin/program", "00:00 0")
    assert found(mapping(anonymous, 8), mapping(BIG, 65536)) is None
    assert found(mapping(CODE, 8), mapping(BIG, 65536).replace(f"VmFlags: {ORDINARY} \n", "")) is None
    assert heaps.find(b"") is None
    assert heaps.find(b"\xff not smaps") is None


def test_little_memory_is_not_worth_it() -> None:
    """A heap has 8 MiB in it, and a process 32 MiB of heaps."""
    assert found(mapping(CODE, 8), mapping(BIG, 8191)) is None
    assert found(mapping(CODE, 8), mapping(BIG, 32767)) is None
    assert found(mapping(CODE, 8), mapping(BIG, 32768)) is not None


def test_sparse_memory_is_not_searched() -> None:
    """Whatever its size in addresses, which costs a program nothing."""
    sparse = "100000000000-200000000000 rw-p 00000000 00:00 0 "
    assert found(mapping(CODE, 8), mapping(sparse, 65536)) is None
    assert found(mapping(CODE, 8), mapping(sparse, 65536), mapping(BIG, 65536)) == found(
        mapping(CODE, 8), mapping(BIG, 65536)
    )


def test_heaps_are_found_again_in_maps() -> None:
    """They can have grown since; heaps that ended or changed their kind are left out."""
    seen = HeapsOf(0x400000, (Heap(0x1000, 0x9000, 10), Heap(0x20000, 0x30000, 20)))
    grown = b"00001000-0000a000 rw-p 00000000 00:00 0 [heap]"
    code = CODE.encode()
    maps = list(memory_maps.parse(b"\n".join((grown, b"00020000-00030000 r--p 00000000 00:00 0 ", code))))
    assert heaps.now(seen, maps) == HeapsOf(0x400000, (Heap(0x1000, 0xA000, 10),))
    assert heaps.now(seen, list(memory_maps.parse(grown))) is None
    assert heaps.now(seen, list(memory_maps.parse(code))) is None


def test_a_twin_must_have_been_given_the_heaps() -> None:
    """Memory that its process withheld since the heaps were found is missing or empty in it."""
    seen = HeapsOf(0x400000, (Heap(0x7F0000000000, 0x7F0004000000, 1),))
    assert heaps.is_faithful(seen, (mapping(CODE, 8) + mapping(BIG, 8)).encode())
    assert not heaps.is_faithful(seen, mapping(BIG, 8, f"{ORDINARY} wf").encode())
    assert not heaps.is_faithful(seen, mapping(CODE, 8).encode())
    assert not heaps.is_faithful(seen, b"")


def one(*sizes: int) -> HeapsOf:
    return HeapsOf(1, tuple(Heap(number, number + 1, size) for number, size in enumerate(sizes)))


def test_affordable_costs_are_paid() -> None:
    """The largest first, whole processes only."""
    all_of_them = [(1, one(10, 20)), (2, one(50)), (3, one(5))]
    assert [pid for pid, _ in heaps.affordable(all_of_them, 85)] == [2, 1, 3]
    assert [pid for pid, _ in heaps.affordable(all_of_them, 60)] == [2, 3]
    assert heaps.affordable(all_of_them, 4) == []
    assert heaps.affordable(all_of_them, -1) == []
    assert heaps.affordable([(1, one(*[1] * (heaps.MOST + 1)))], 1 << 40) == []
    assert len(heaps.affordable([(pid, one(1)) for pid in range(1000)], 1 << 40)) == heaps.PROCESSES


def test_runs_of_pages() -> None:
    """Present or swapped out, and neither a file's nor a guard."""
    tops = bytes([0x00, 0x81, 0x80, 0x40, 0xA0, 0x44, 0x80])
    pagemap = b"".join(bytes(7) + bytes([top]) for top in tops)
    start = 0x7F0000000000
    assert list(heaps.present_pages(pagemap, start)) == [(start + PAGE, 3 * PAGE), (start + 6 * PAGE, PAGE)]
    assert list(heaps.present_pages(b"", start)) == []


def entry(page: int, count: int, flags: int = heaps.PRESENT) -> Any:
    return SimpleNamespace(vaddr=page * PAGE, nr_pages=count, flags=flags)


def test_heaps_come_between_written_files() -> None:
    """The entries are divided at the heaps, and so are their pages in the file."""
    entries = [entry(1, 2), entry(5, 1, flags=0), entry(20, 3), entry(40, 1)]
    parts = heaps.split_pages(entries, [10 * PAGE, 30 * PAGE])
    assert [[one.vaddr // PAGE for one in part.entries] for part in parts] == [[1, 5], [20], [40]]
    assert [(part.offset // PAGE, part.size // PAGE) for part in parts] == [(0, 2), (2, 3), (5, 1)]
    assert [part.entries for part in heaps.split_pages([], [PAGE])] == [(), ()]


def test_a_heap_that_was_written_is_refused() -> None:
    """The images and the heaps would contradict each other."""
    with pytest.raises(ImagesUnreadable):
        heaps.split_pages([entry(8, 4)], [10 * PAGE])


def test_zeros_are_left_out() -> None:
    """A page with one byte is written whole."""
    full, empty = b"\1" * PAGE, bytes(PAGE)
    late = bytes(PAGE - 1) + b"\1"
    data = bytearray(empty + full + late + empty + full + full)
    assert list(heaps.without_zeros(data, len(data))) == [(PAGE, 2 * PAGE), (4 * PAGE, 2 * PAGE)]
    assert list(heaps.without_zeros(data, 2 * PAGE)) == [(PAGE, PAGE)]
    assert list(heaps.without_zeros(bytearray(4 * PAGE), 4 * PAGE)) == []


def test_long_runs_have_several_entries() -> None:
    """An entry has at most a MiB of pages."""
    most = heaps.MOST_OF_ENTRY
    assert list(heaps.page_entries(0x1000, most + PAGE)) == [(0x1000, most // PAGE), (0x1000 + most, 1)]
    assert list(heaps.page_entries(0x1000, PAGE)) == [(0x1000, 1)]


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
    """Small ones, and special memory, are loaded immediately."""
    assert heaps.waiting_heaps([area]) == ([(0, LARGE)] if waits else [])


def test_entries_are_cut_at_the_ends_of_heaps() -> None:
    """The flag of pages that wait is set within heaps only."""
    entries = [
        Entry(0, 10, PRESENT | LAZY),
        Entry(20 * PAGE, 5, PRESENT),
        Entry(30 * PAGE, 4, PRESENT | LAZY),
    ]
    places = [(2 * PAGE, 5 * PAGE), (8 * PAGE, 22 * PAGE), (31 * PAGE, 99 * PAGE)]
    found = [
        (entry.vaddr // PAGE, entry.nr_pages, bool(entry.flags & LAZY), waits)
        for entry, waits in heaps.mark_waiting(entries, places)
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
        ends = sorted(draw.sample(range(400), 2 * draw.randint(0, 6)))
        places = [(a * PAGE, b * PAGE) for a, b in zip(ends[::2], ends[1::2], strict=True)]
        entries, at = [], 0
        while at < 390:
            at += draw.randint(0, 9)
            count = draw.randint(1, 30)
            entries.append(Entry(at * PAGE, count, draw.choice((PRESENT, PRESENT | LAZY, LAZY, 0))))
            at += count
        before = [(e.vaddr + n * PAGE, e.flags) for e in entries for n in range(e.nr_pages)]
        marked = [*heaps.mark_waiting(entries, places)]
        after = [(e.vaddr + n * PAGE, e.flags, w) for e, w in marked for n in range(e.nr_pages)]
        assert [address for address, _, _ in after] == [address for address, _ in before]
        for (address, old), (_, new, waits) in zip(before, after, strict=True):
            inside = any(begin <= address < end for begin, end in places)
            assert waits == bool(new & LAZY) == (inside and bool(old & LAZY))
            assert new & ~LAZY == old & ~LAZY
