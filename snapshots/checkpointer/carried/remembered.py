"""Has programs in a copy know their files again, where they remember device and inode of what they have open.

In a copy a file has other numbers, and what remembers them takes it for another file. SQLite refuses to begin
writing in rollback mode (SQLITE_READONLY_DBMOVED). It also finds by them the locks of other connections of
its process, which the kernel does not hold against each other (fcntl(2)): a connection that was made in a
copy would not know of those from before, and both would write at once. `tail -F` says that the file was
replaced and tells all of it again.

So wherever the memory of a process has the numbers of a regular file it has open, it has those of the copy
from then on. Only in forms that are nothing else: device and inode, of eight bytes each, one after the other;
then

- the mode of the file: `struct stat` of arm64, `struct File_spec` of tail;
- a count of links and its mode: `struct stat` of x86-64. The count may be another one by now, and a capture
  itself gives a name to a file that has lost the one it was opened by;
- a pointer into memory: `struct unixInodeInfo` of SQLite, 3.24 and newer, that is built for threads.

The places are searched in the images, so that memory can come on demand; they are written before anything
runs, where they still have what was found.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.carried import foreign_memory
from holdfast.snapshots.checkpointer.carried.file_numbers import Numbers
from holdfast.snapshots.checkpointer.ground import tree
from holdfast.snapshots.checkpointer.record.memory import ImageMemory

MOST = 10_000
"""Places of one tree. A file has a few; beyond are those of a program that makes them up."""
MOST_LOOKS = 1_000_000
"""Places of one tree that may match; examining this many takes seconds."""
MOST_LINKS = 1 << 31
"""Names of one file; no file system has more of them (XFS_MAXLINK)."""
_PAIR = struct.Struct("=QQ")
_MODE, _LINKS_AND_MODE, _POINTER = struct.Struct("=I"), struct.Struct("=QI"), struct.Struct("=Q")
_ALIGNMENT = _DEVICE = 8


@dataclass(frozen=True, slots=True)
class NumberPlaces:
    """Where the memory of a process has the numbers of its descriptor `fd`; pids of the session."""

    pid: int
    fd: int
    said: bytes
    addresses: tuple[int, ...]


class ProcessMemories(Protocol):
    """The images to search; see `record.source.ImageFolder`."""

    def all_memory(self, pid: int) -> ImageMemory | None:
        """Return the memory of a process."""


def places(images: ProcessMemories, files: Iterable[Numbers]) -> list[NumberPlaces]:
    """Search the memory in the images for the numbers of these files. Raises Unreadable."""
    held: dict[int, dict[bytes, Numbers]] = {}
    for one in files:
        held.setdefault(one.pid, {})[_PAIR.pack(one.device, one.inode)] = one
    found: dict[tuple[int, bytes], list[int]] = {}
    room, looks = MOST, iter(range(MOST_LOOKS))
    for pid, numbers in held.items():
        memory = images.all_memory(pid)
        for address, said in islice(_of_process(memory, numbers, looks), room) if memory is not None else ():
            found.setdefault((pid, said), []).append(address)
            room -= 1
    return [
        NumberPlaces(pid, held[pid][said].fd, said, tuple(addresses))
        for (pid, said), addresses in found.items()
    ]


def renew(pids: Iterable[int], found: Sequence[NumberPlaces]) -> None:
    """Write today's numbers into the memory of a restored tree of which nothing runs yet."""
    if not found:
        return
    ours = tree.by_inner_pid(pids)
    for one in found:
        pid = ours.get(one.pid)
        file_status = walk.stat_of(pid, one.fd) if pid is not None else None
        if pid is None or file_status is None or not stat.S_ISREG(file_status.st_mode):
            continue
        now = _PAIR.pack(file_status.st_dev, file_status.st_ino)
        for address in one.addresses:
            # What its process may not write is not what it remembers.
            with suppress(OSError):
                if foreign_memory.read(pid, address, _PAIR.size) == one.said:
                    foreign_memory.write(pid, address, now)


def _of_process(
    memory: ImageMemory, numbers: dict[bytes, Numbers], looks: Iterator[int]
) -> Iterator[tuple[int, bytes]]:
    for address, said, after in memory.find(numbers, _DEVICE, _ALIGNMENT, _LINKS_AND_MODE.size, looks):
        file = numbers[said]
        links, mode = _LINKS_AND_MODE.unpack(after)
        if (
            _MODE.unpack_from(after) == (file.mode,)
            or (mode == file.mode and 0 < links <= MOST_LINKS)
            or memory.has(_POINTER.unpack_from(after)[0])
        ):
            yield address, said
