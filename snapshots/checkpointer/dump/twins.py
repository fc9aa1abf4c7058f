"""Copies large heaps while the session runs again, from twins of their processes made while it was frozen.

The guard hides the heaps from CRIU and makes the twins (guard_heaps.c, guard_twins.c); heaps.py chooses the
heaps. A twin is a stopped process of the session, so root in there can end it, and so can the kernel when
memory is short. Then the copy fails, and with it the capture. A process without a twin is read before it
continues.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycriu.images import pagemap_pb2

from holdfast.procfs import bounded, memory_maps, walk
from holdfast.snapshots.checkpointer.carried import heaps
from holdfast.snapshots.checkpointer.carried.heaps import PAGE, HeapsOf
from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.dump.write_behind import WriteBehind
from holdfast.snapshots.checkpointer.ground import cgroups, tree

PIECE = 1 << 20
"""Bytes that are read at a time."""
WINDOW = 1 << 30
"""Bytes of addresses whose pages are listed at a time."""
MAX_SMAPS = 4 << 20
"""Bytes: some 4000 mappings. A process with more of them is written while it is frozen."""
_LIMITS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""By version of control groups: the limit, what is used, and what of that is given back when it is needed."""


_LOST = "the copy of a process ended before its memory was written"


class TwinLost(OSError):
    """A twin ended before its memory was copied."""


class NoRoom(OSError):
    """The heaps do not fit on the disk."""


@dataclass(slots=True)
class _HeapSource:
    """Where the heaps of the process with that inner pid are read: in it, or in its twin.

    Open files of /proc/PID stay with the memory they were opened for, whatever becomes of the pid. Pages that
    other processes have as well are read as they are; process_vm_readv(2) would first copy each of them.
    """

    inner: int
    heaps: HeapsOf
    pid: int
    memory: int = -1
    pagemap: int = -1

    def open(self) -> None:
        self.memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self.pagemap = os.open(f"/proc/{self.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        for one in (self.memory, self.pagemap):
            if one >= 0:
                os.close(one)
        self.memory = self.pagemap = -1

    def read(self, address: int, into: memoryview) -> None:
        if os.preadv(self.memory, [into], address) != len(into):
            raise TwinLost(_LOST)

    def entries(self, start: int, end: int) -> bytes:
        """Return the entries of pagemap between two addresses."""
        size = (end - start) // PAGE * heaps.PAGEMAP_ENTRY
        found = os.pread(self.pagemap, size, start // PAGE * heaps.PAGEMAP_ENTRY)
        if len(found) != size:
            raise TwinLost(_LOST)
        return found


class Twins:
    """The heaps of one capture; to be closed. Unless they are `wanted`, CRIU writes all of them."""

    def __init__(self, init_pid: int, *, wanted: bool) -> None:
        self._init_pid = init_pid
        self._wanted = wanted
        self._list = os.memfd_create("heaps")
        self._seen: dict[int, HeapsOf] = {}
        self._sources: dict[int, _HeapSource] = {}
        self.short_of_memory = 0
        """Bytes of heaps that are written while the session is frozen, for want of memory."""
        self.copied = 0
        """Bytes of heaps that twins had."""

    def close(self) -> None:
        """Give back what was borrowed."""
        os.close(self._list)
        for source in self._sources.values():
            source.close()

    @property
    def handles(self) -> tuple[int, ...]:
        """Descriptors for CRIU to inherit."""
        return (self._list,)

    @property
    def environment(self) -> dict[str, str]:
        """The variables for the guard."""
        return {"HOLDFAST_HEAPS": str(self._list)}

    def look(self, root: int) -> None:
        """Find the heaps while the session runs: that takes time. Raises OSError."""
        if not self._wanted:
            return
        pids = tree.tree(root)
        statm = {pid: walk.read(f"{pid}/statm", small=walk.SMALL) or b"0 0" for pid in pids}
        sizes = {pid: int(words.split()[1]) * PAGE for pid, words in statm.items()}
        large = [pid for pid, size in sizes.items() if size >= heaps.LEAST_OF_PROCESS]
        ours = set(walk.namespaces_of(self._init_pid, ("pid",)).values())
        for pid in sorted(large, key=lambda pid: -sizes[pid])[: heaps.PROCESSES]:
            # A child in another PID namespace would have another pid there.
            if set(walk.namespaces_of(pid, ("pid", "pid_for_children")).values()) == ours:
                found = _smaps(pid)
                if found is not None and (one := heaps.find(found)) is not None:
                    self._seen[pid] = one

    def choose(self) -> None:
        """Choose heaps of processes that are frozen now; the guard reads the list later. Raises OSError."""
        found = []
        for pid, seen in self._seen.items():
            maps = [one for lines in walk.maps(pid) for one in memory_maps.parse(lines)]
            if (one := heaps.now(seen, maps)) is not None:
                found.append((pid, one))
        if not found:
            return
        chosen = heaps.affordable(found, _free_memory(self._init_pid))
        self.short_of_memory = sum(one.resident for _, one in found) - sum(one.resident for _, one in chosen)
        lines = []
        for pid, one in chosen:
            inner = tree.inner_pid_of(pid)
            self._sources[inner] = _HeapSource(inner, one, pid)
            lines += [f"{inner} {one.code:x} {heap.start:x} {heap.end:x}\n" for heap in one.heaps]
        os.pwrite(self._list, "".join(lines).encode(), 0)
        os.lseek(self._list, 0, os.SEEK_END)

    def take(self, root: int, images: Path, check: Callable[[], None]) -> None:
        """Find the twins, while all are stopped; copy the heaps of processes that have none.

        `check` may end that by an exception.

        Raises:
            NoRoom: the disk is full.
            OSError: a heap cannot be copied.
        """
        made = self._made()
        if made:
            outer = {tree.inner_pid_of(pid): pid for pid in tree.tree(root)}
            for inner, twin in made.items():
                source = self._sources[inner]
                source.pid = outer[twin]
                source.open()
                with suppress(OSError):  # it is the first to go when memory is short
                    Path(f"/proc/{source.pid}/oom_score_adj").write_text("1000")
        for inner in self._sources.keys() - made.keys():
            with closing(self._sources.pop(inner)) as source:
                source.open()
                _Copy(source, images).run(check, hurried=True)

    def copy(self, images: Path) -> None:
        """Copy the heaps from the twins.

        Raises:
            TwinLost: one ended meanwhile.
            NoRoom: the disk is full.
            OSError: they cannot be written.
        """
        for source in self._sources.values():
            if not heaps.is_faithful(source.heaps, _smaps(source.pid) or b""):
                raise TwinLost(_LOST)
            _Copy(source, images).run(lambda: None)
            self.copied += source.heaps.resident

    def _made(self) -> dict[int, int]:
        """Return the inner pids of the twins by those of their processes."""
        size = os.fstat(self._list).st_size
        lines = (line.split() for line in os.pread(self._list, size, 0).decode().splitlines())
        return {int(words[1]): int(words[2]) for words in lines if words[0] == "twin"}


class _Copy:
    """The images of one process, written again with its heaps."""

    def __init__(self, source: _HeapSource, images: Path) -> None:
        self._source = source
        self._pagemap = images / f"pagemap-{source.inner}.img"
        self._magic, (self._head, *self._entries) = criu_images.read(self._pagemap)
        self._pages = images / f"pages-{self._head.pages_id}.img"
        self._making = images / "heaps.tmp"

    def run(self, check: Callable[[], None], *, hurried: bool = False) -> None:
        """Write the images again; if `hurried`, because the session waits for it."""
        try:
            with (
                self._pages.open("rb") as old,
                self._making.open("xb", buffering=0) as new,
                closing(WriteBehind(new.fileno(), PIECE, hurried=hurried)) as behind,
            ):
                entries = self._written(old.fileno(), new.fileno(), behind, check)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoom(error.strerror) from error
            raise
        criu_images.write(self._pagemap, self._magic, entries)
        self._making.replace(self._pages)

    def _written(self, old: int, new: int, behind: WriteBehind, check: Callable[[], None]) -> list[Any]:
        """Write the pages to `new`; return the entries that describe them."""
        heaps_here = self._source.heaps.heaps
        first, *rest = heaps.split_pages(self._entries, [heap.start for heap in heaps_here])
        entries = [self._head, *first.entries]
        _move(old, new, first)
        for heap, after in zip(heaps_here, rest, strict=True):
            for address, size in self._present(heap.start, heap.end):
                check()
                data = behind.buffer()
                self._source.read(address, memoryview(data)[:size])
                runs = list(heaps.without_zeros(data, size))
                behind.send(data, runs)
                for offset, length in runs:
                    entries += map(_entry, heaps.page_entries(address + offset, length))
            entries += after.entries
            behind.settle()
            _move(old, new, after)
        return entries

    def _present(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield address and size of pieces of memory that exist."""
        for window in range(start, end, WINDOW):
            listed = self._source.entries(window, min(end, window + WINDOW))
            for address, length in heaps.present_pages(listed, window):
                for at in range(address, address + length, PIECE):
                    yield at, min(PIECE, address + length - at)


def _smaps(pid: int) -> bytes | None:
    try:
        return bounded.read(walk.PROC / str(pid) / "smaps", MAX_SMAPS)
    except OSError:
        return None


def _free_memory(init_pid: int) -> int:
    """Return the bytes that the session may still take, by its own limits and those of the machine."""
    free = [_fields(Path("/proc/meminfo")).get("MemAvailable:", 0) << 10]
    for controllers, folder in cgroups.folders(init_pid):
        if controllers and "memory" not in controllers.split(","):
            continue
        for limit, used, cache in _LIMITS:
            with suppress(OSError, ValueError):
                most, now = (int(bounded.text(folder / name, PAGE)) for name in (limit, used))
                free.append(most - now + _fields(folder / "memory.stat").get(cache, 0))
    return min(free)


def _fields(path: Path) -> dict[str, int]:
    lines = (line.split() for line in bounded.text(path, 1 << 16).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}


def _entry(described: tuple[int, int]) -> Any:
    address, pages = described
    flags = heaps.PRESENT | heaps.LAZY
    return pagemap_pb2.pagemap_entry(vaddr=address, compat_nr_pages=0, flags=flags, nr_pages=pages)


def _move(old: int, new: int, part: heaps.WrittenPages) -> None:
    offset, size = part.offset, part.size
    while size:
        done = os.copy_file_range(old, new, size, offset)
        if not done:
            raise OSError("CRIU's images are shorter than they say")
        offset, size = offset + done, size - done
