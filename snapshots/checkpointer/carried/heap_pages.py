"""The place of heaps in CRIU's images of a process: between the pages that CRIU wrote itself. Pure.

CRIU reads a process's pages in the order of its pagemap, which is that of addresses, so its file is written
once more with the heaps in it. Pages of zeros are left out: where a heap has no page, a program reads zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.snapshots.checkpointer.carried.heaps import PAGE
from holdfast.snapshots.checkpointer.record import ImagesUnreadable

ENTRY = 8
"""Bytes of a page's entry in /proc/PID/pagemap."""
PRESENT, LAZY = 4, 2
"""PE_PRESENT, PE_LAZY of CRIU's pagemap.proto: it has a page in the file, which may be loaded on demand."""
MOST = 1 << 20
"""Bytes that one entry describes: the size of a pipe, as CRIU has it."""
# The highest byte of an entry: bit 63 present, 62 swapped out, 61 of a file, 58 a guard
# (Documentation/admin-guide/mm/pagemap.rst of Linux).
_EXISTS = bytes(int(bool(value & 0xC0) and not value & 0x24) for value in range(256))
_RUN = re.compile(rb"\x01+")


@dataclass(frozen=True, slots=True)
class Written:
    """Pages that CRIU wrote: `size` bytes at `offset` of its file, described by these entries."""

    entries: tuple[Any, ...]
    offset: int
    size: int


def present(pagemap: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield address and bytes of each run of pages that exist; `pagemap` begins at address `start`."""
    for run in _RUN.finditer(pagemap[ENTRY - 1 :: ENTRY].translate(_EXISTS)):
        yield start + run.start() * PAGE, len(run[0]) * PAGE


def split(entries: Sequence[Any], starts: Sequence[int]) -> list[Written]:
    """Return what CRIU wrote, cut at the addresses where heaps begin: one part more than there are heaps.

    Raises:
        ImagesUnreadable: an address is within what CRIU wrote.
    """
    parts: list[Written] = []
    offset = number = 0
    for start in (*starts, 1 << 64):
        kept, size = [], 0
        while number < len(entries) and entries[number].vaddr < start:
            entry = entries[number]
            if entry.vaddr + entry.nr_pages * PAGE > start:
                raise ImagesUnreadable("memory that was to be copied later is there already")
            kept.append(entry)
            size += entry.nr_pages * PAGE if entry.flags & PRESENT else 0
            number += 1
        parts.append(Written(tuple(kept), offset, size))
        offset += size
    return parts


def described(address: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield address and number of pages of each entry that describes a run of pages."""
    for at in range(address, address + size, MOST):
        yield at, min(MOST, address + size - at) // PAGE


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
