"""Lets programs in a copy recognize their files again, where they remember the device and inode of open
files.

In a copy a file has new numbers, and programs that remember the old ones take it for a different file.
SQLite refuses to begin writing in rollback mode (SQLITE_READONLY_DBMOVED). It also finds by them the locks
of other connections of its process, which the kernel does not hold against each other (fcntl(2)): a
connection that was made in a copy would not know of those from before, and both would write at once. `tail
-F` says that the file was replaced and tells all of it again.

So wherever the memory of a process has the numbers of a regular file it has open, it has those of the copy
from then on. Only in forms that are nothing else: device and inode, of eight bytes each, one after the other;
then

- the mode of the file: `struct stat` of arm64, `struct File_spec` of tail;
- a count of links and its mode: `struct stat` of x86-64. The count may be another one by now, and a capture
  itself gives a name to a file that has lost the one it was opened by;
- a pointer into memory: `struct unixInodeInfo` of SQLite, 3.24 and newer, that is built for threads.

The places are searched in the images, so that memory can come on demand; they are written before anything
runs, where they still have what was found.

Reads and writes memory of other processes (process_vm_readv(2)), including memory that is loaded on
demand.

/proc/PID/mem would not do: there the kernel returns EIO for a page that its server still holds
(userfaultfd(2)).

Notes which files a captured tree has open, as stat(2) identifies them.

In a copy they have other numbers, and a program that remembers them would take its own file for another; see
`remembered.py`, which reads these notes. Runs while everything is frozen, and opens nothing.
"""

from __future__ import annotations

import ctypes
import json
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from holdfast.procfs import bounded, mount_table, walk
from holdfast.snapshots.checkpointer.ground import tree
from holdfast.snapshots.checkpointer.record import ImagesUnreadable
from holdfast.snapshots.checkpointer.record.memory import ImageMemory

NUMBERS_FILE = "file-numbers.json"
"""Among the images."""
MOST_FILES = 20_000
"""Files; further ones are not noted."""
MAX_NOTE = 4 << 20
"""Of the note: a file has six numbers."""
_OURS = ("/", "/dev/shm")  # noqa: S108 - the session's, by its well-known name
_NUMBER = 1 << 64
MOST = 10_000
"""Places of one tree. A file has a few; beyond are those of a program that makes them up."""
MOST_LOOKS = 1_000_000
"""Places of one tree that can match; examining this many takes seconds."""
MOST_LINKS = 1 << 31
"""Names of one file; no file system has more of them (XFS_MAXLINK)."""
_PAIR = struct.Struct("=QQ")
_MODE, _LINKS_AND_MODE, _POINTER = struct.Struct("=I"), struct.Struct("=QI"), struct.Struct("=Q")
_ALIGNMENT = _DEVICE = 8


@dataclass(frozen=True, slots=True)
class Numbers:
    """A regular file that a process has open: pid of the session and descriptor, then what stat(2) tells."""

    pid: int
    fd: int
    device: int
    inode: int
    mode: int
    links: int


def note_numbers(init_pid: int, pids: Iterable[int], folder: Path) -> None:
    """Record the open files of the processes of a tree. Raises OSError."""
    found = [astuple(one) for one in _limited(_numbers_of(init_pid, pids))]
    (folder / NUMBERS_FILE).write_text(json.dumps(found))


def read_numbers(folder: Path) -> list[Numbers]:
    """Read the notes; empty in a snapshot of a version that did not write them.

    Raises:
        Unreadable: it is not what `note` writes.
        OSError: it cannot be read.
    """
    try:
        found = json.loads(bounded.read(folder / NUMBERS_FILE, MAX_NOTE))
    except FileNotFoundError:
        return []
    except (bounded.TooLong, ValueError, RecursionError) as error:
        raise ImagesUnreadable(f"{NUMBERS_FILE} cannot be read ({error})") from error
    if not isinstance(found, list) or len(found) > MOST_FILES or not all(map(_is_one, found)):
        raise ImagesUnreadable(f"{NUMBERS_FILE} cannot be read (its version is different)")
    return [Numbers(*one) for one in found]


def _is_one(found: Any) -> bool:
    if not isinstance(found, list) or len(found) != 6:
        return False
    return all(type(one) is int and 0 <= one < _NUMBER for one in found) and found[3] > 0


def _limited(found: Iterator[Numbers]) -> Iterator[Numbers]:
    for number, one in enumerate(found):
        if number >= MOST_FILES:
            return
        yield one


def _numbers_of(init_pid: int, pids: Iterable[int]) -> Iterator[Numbers]:
    table = list(mount_table.parse(walk.read(f"{init_pid}/mountinfo") or b""))
    roots = [mount for mount in table if mount.point == "/"]
    ours = {mount.id for mount in table if mount.point in _OURS}
    ours |= {mount.id for mount in table for root in roots if mount_table.in_place(mount, root)}
    for pid in pids:
        inner = 0
        for fd in walk.descriptors(pid):
            link = walk.link_of(pid, fd)
            if link is None or link.kind != "path":
                continue
            info = walk.fdinfo_of(pid, fd)
            # Only where no other process has to answer.
            if info is None or info.mount_id not in ours or info.access not in ("r", "rw"):
                continue
            status = walk.stat_of(pid, fd)
            if status is None or not stat.S_ISREG(status.st_mode) or not status.st_nlink:
                continue
            inner = inner or _inner(pid)
            yield Numbers(inner, fd, status.st_dev, status.st_ino, status.st_mode, status.st_nlink)


def _inner(pid: int) -> int:
    status = walk.status_of(pid)
    return status.inner_pid if status is not None else 0


@dataclass(frozen=True, slots=True)
class NumberPlaces:
    """The place of descriptor `fd`'s numbers in the memory of a process; pids of the session."""

    pid: int
    fd: int
    said: bytes
    addresses: tuple[int, ...]


class ProcessMemories(Protocol):
    """The images to search; see `criu_images.ImageFolder`."""

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
    """Write the present numbers into the memory of a restored tree that does not run yet."""
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
                if read_memory(pid, address, _PAIR.size) == one.said:
                    write_memory(pid, address, now)


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


class _MappedPart(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Read memory of a process.

    Raises:
        OSError: not all of it exists.
    """
    data = ctypes.create_string_buffer(size)
    _transfer("process_vm_readv", pid, data, address, size)
    return data.raw


def write_memory(pid: int, address: int, data: bytes) -> None:
    """Write memory of a process.

    Raises:
        OSError: it does not exist, or its process cannot write it either.
    """
    _transfer("process_vm_writev", pid, ctypes.create_string_buffer(data, len(data)), address, len(data))


def _transfer(call: str, pid: int, data: ctypes.Array[ctypes.c_char], address: int, size: int) -> None:
    ours, theirs = _MappedPart(ctypes.addressof(data), size), _MappedPart(address, size)
    number = ctypes.c_ulong
    done = ctypes.CDLL(None, use_errno=True)[call](
        ctypes.c_int(pid), ctypes.byref(ours), number(1), ctypes.byref(theirs), number(1), number(0)
    )
    if done != size:
        raise OSError(ctypes.get_errno() if done < 0 else 0, call)
