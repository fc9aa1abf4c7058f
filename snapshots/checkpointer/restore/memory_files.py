"""Repairs what CRIU cannot do with memory files (memfd_create(2)) that are mapped.

Shared and sealed against writing: CRIU opens what is mapped as it was opened originally, maps it and applies
seals at the end. But a shared mapping by a descriptor that writes may be made writable later, so F_SEAL_WRITE
is refused (EBUSY, fcntl(2)). As the file was sealed, none of its mappings can have been writable: they are
made by a descriptor that only reads.

Private: CRIU 4.3 asks a helper of its own to write the content of such files. If memory comes on demand, the
request goes to the server of that memory, and the restore fails. So then it does not come on demand.

Pure over decoded images.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterable
from typing import Any

_F_SEAL_WRITE = 0x0008  # fcntl(2)
_MEMORY_FILE = 1 << 14  # VMA_AREA_MEMFD of CRIU


def sealed(inodes: Iterable[Any], files: Iterable[Any]) -> set[int]:
    """Return the ids of files that are sealed against writing, according to `memfd.img` and `files.img`."""
    against = {inode.inode_id for inode in inodes if inode.seals & _F_SEAL_WRITE}
    return {file.id for file in files if file.HasField("memfd") and file.memfd.inode_id in against}


def only_read(memory: Any, sealed: Collection[int]) -> bool:
    """Have shared mappings of sealed files made by a descriptor that only reads; whether there are any."""
    changed = False
    for area in memory.vmas:
        if area.status & _MEMORY_FILE and area.shmid in sealed and area.flags & mmap.MAP_SHARED:
            area.fdflags = os.O_RDONLY
            changed = True
    return changed


def mapped_privately(memory: Any) -> bool:
    """Check whether a process has a private mapping of such a file."""
    return any(area.status & _MEMORY_FILE and area.flags & mmap.MAP_PRIVATE for area in memory.vmas)
