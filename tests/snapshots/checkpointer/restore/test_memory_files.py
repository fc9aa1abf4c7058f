"""How memory files that are mapped come back."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field

from holdfast.snapshots.checkpointer.restore import memory_files

MEMORY_FILE = 1 << 14


@dataclass
class Area:
    """As much of CRIU's vma_entry as is looked at."""

    shmid: int
    status: int = MEMORY_FILE
    flags: int = mmap.MAP_SHARED
    fdflags: int = os.O_RDWR


@dataclass
class Memory:
    """As much of CRIU's mm_entry as is looked at."""

    vmas: list[Area] = field(default_factory=list)


def test_shared_mappings_of_sealed_files_are_made_to_read() -> None:
    """Others are made as they were: private ones, of files without the seal, of the same number by chance."""
    others = [Area(5, flags=mmap.MAP_PRIVATE), Area(6), Area(5, status=0)]
    memory = Memory([Area(5), *others])

    assert memory_files.only_read(memory, {5})
    assert [area.fdflags for area in memory.vmas] == [os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_RDWR]
    assert not memory_files.only_read(Memory(others), {5})
    assert not memory_files.only_read(memory, ())


def test_what_keeps_memory_from_coming_on_demand() -> None:
    """A private mapping of a memory file; not one of another kind, and not a shared one."""
    assert memory_files.mapped_privately(Memory([Area(5), Area(5, flags=mmap.MAP_PRIVATE)]))
    assert not memory_files.mapped_privately(Memory([Area(5), Area(5, status=0, flags=mmap.MAP_PRIVATE)]))
