"""Which memory is copied later, and where its pages come in CRIU's images."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.procfs import memory_maps
from holdfast.snapshots.checkpointer.carried import heap_pages, heaps
from holdfast.snapshots.checkpointer.carried.heaps import PAGE, Heap, HeapsOf
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

CODE = "00400000-00420000 r-xp 00001000 08:01 1234 /usr/bin/program"
BIG = "7f0000000000-7f0004000000 rw-p 00000000 00:00 0 "
ORDINARY = "rd wr mr mw me ac"


def mapping(line: str, anonymous: int, flags: str = ORDINARY, swap: int = 0) -> str:
    return (
        f"{line}\nSize: 9 kB\nRss: {anonymous} kB\nAnonymous: {anonymous} kB\nAnonHugePages: 0 kB\n"
        f"Swap: {swap} kB\nSwapPss: 0 kB\nLocked: 0 kB\nTHPeligible: 1\nVmFlags: {flags} \n"
    )


def found(*mappings: str) -> HeapsOf | None:
    return heaps.find("".join(mappings).encode())


def test_large_anonymous_memory_is_found() -> None:
    """Whatever its name; what is swapped out counts."""
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
    assert found(mapping(CODE, 8), mapping(line, 65536)) is None


@pytest.mark.parametrize("flag", ["dc", "wf", "io", "pf", "lo", "ht", "gd", "sh"])
def test_memory_that_a_child_has_not_or_that_is_special_is_not(flag: str) -> None:
    assert found(mapping(CODE, 8), mapping(BIG, 65536, f"{ORDINARY} {flag}")) is None


def test_a_process_whose_faults_are_served_has_no_twin() -> None:
    """Its server would be asked about the twin (userfaultfd(2), UFFD_FEATURE_EVENT_FORK)."""
    served = "7f2000000000-7f2000001000 rw-p 00000000 00:00 0"
    assert found(mapping(CODE, 8), mapping(BIG, 65536), mapping(served, 4, f"{ORDINARY} um")) is None


def test_there_must_be_code_of_a_file_and_flags() -> None:
    anonymous = CODE.replace("08:01 1234 /usr/bin/program", "00:00 0")
    assert found(mapping(anonymous, 8), mapping(BIG, 65536)) is None
    assert found(mapping(CODE, 8), mapping(BIG, 65536).replace(f"VmFlags: {ORDINARY} \n", "")) is None
    assert heaps.find(b"") is None
    assert heaps.find(b"\xff not smaps") is None


def test_little_memory_is_not_worth_it() -> None:
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
    """They may have grown since; what is gone or of another kind is left out."""
    seen = HeapsOf(0x400000, (Heap(0x1000, 0x9000, 10), Heap(0x20000, 0x30000, 20)))
    grown = b"00001000-0000a000 rw-p 00000000 00:00 0 [heap]"
    code = CODE.encode()
    maps = list(memory_maps.parse(b"\n".join((grown, b"00020000-00030000 r--p 00000000 00:00 0 ", code))))
    assert heaps.now(seen, maps) == HeapsOf(0x400000, (Heap(0x1000, 0xA000, 10),))
    assert heaps.now(seen, list(memory_maps.parse(grown))) is None
    assert heaps.now(seen, list(memory_maps.parse(code))) is None


def test_a_twin_must_have_been_given_the_heaps() -> None:
    """What its process kept to itself since the heaps were found, it lacks or has empty."""
    seen = HeapsOf(0x400000, (Heap(0x7F0000000000, 0x7F0004000000, 1),))
    assert heaps.is_faithful(seen, (mapping(CODE, 8) + mapping(BIG, 8)).encode())
    assert not heaps.is_faithful(seen, mapping(BIG, 8, f"{ORDINARY} wf").encode())
    assert not heaps.is_faithful(seen, mapping(CODE, 8).encode())
    assert not heaps.is_faithful(seen, b"")


def one(*sizes: int) -> HeapsOf:
    return HeapsOf(1, tuple(Heap(number, number + 1, size) for number, size in enumerate(sizes)))


def test_what_is_affordable() -> None:
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
    assert list(heap_pages.present(pagemap, start)) == [(start + PAGE, 3 * PAGE), (start + 6 * PAGE, PAGE)]
    assert list(heap_pages.present(b"", start)) == []


def entry(page: int, count: int, flags: int = heap_pages.PRESENT) -> Any:
    return SimpleNamespace(vaddr=page * PAGE, nr_pages=count, flags=flags)


def test_heaps_come_between_what_is_written() -> None:
    entries = [entry(1, 2), entry(5, 1, flags=0), entry(20, 3), entry(40, 1)]
    parts = heap_pages.split(entries, [10 * PAGE, 30 * PAGE])
    assert [[one.vaddr // PAGE for one in part.entries] for part in parts] == [[1, 5], [20], [40]]
    assert [(part.offset // PAGE, part.size // PAGE) for part in parts] == [(0, 2), (2, 3), (5, 1)]
    assert [part.entries for part in heap_pages.split([], [PAGE])] == [(), ()]


def test_a_heap_that_was_written_is_refused() -> None:
    with pytest.raises(ImagesUnreadable):
        heap_pages.split([entry(8, 4)], [10 * PAGE])


def test_zeros_are_left_out() -> None:
    full, empty = b"\1" * PAGE, bytes(PAGE)
    late = bytes(PAGE - 1) + b"\1"
    data = bytearray(empty + full + late + empty + full + full)
    assert list(heap_pages.without_zeros(data, len(data))) == [(PAGE, 2 * PAGE), (4 * PAGE, 2 * PAGE)]
    assert list(heap_pages.without_zeros(data, 2 * PAGE)) == [(PAGE, PAGE)]
    assert list(heap_pages.without_zeros(bytearray(4 * PAGE), 4 * PAGE)) == []


def test_long_runs_have_several_entries() -> None:
    most = heap_pages.MOST
    assert list(heap_pages.described(0x1000, most + PAGE)) == [(0x1000, most // PAGE), (0x1000 + most, 1)]
    assert list(heap_pages.described(0x1000, PAGE)) == [(0x1000, 1)]
