"""Copies large heaps while the session runs again, from twins of their processes made while it was frozen.

The guard hides the heaps from CRIU and makes the twins (guard_heaps.c, guard_twins.c); heaps.py chooses the
heaps. A twin is a stopped process of the session, so root in there can end it, and so can the kernel when
memory is short. Then the copy fails, and with it the capture. A process without a twin is read before it
continues.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycriu.images import pagemap_pb2

from holdfast.procfs import bounded, walk
from holdfast.snapshots.checkpointer import (
    cgroups,
    criu_images,
    foreign_memory,
    heap_pages,
    heaps,
    tree,
)
from holdfast.snapshots.checkpointer.heaps import PAGE, HeapsOf

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
    """Where the heaps of the process with that inner pid are read; `handle` refers to the twin."""

    inner: int
    heaps: HeapsOf
    pid: int
    handle: int = -1


class Twins:
    """The heaps of one capture; to be closed. With `wanted` false there are none."""

    def __init__(self, init_pid: int, *, wanted: bool) -> None:
        self._init_pid = init_pid
        self._wanted = wanted
        self._list = os.memfd_create("heaps")
        self._sources: dict[int, _HeapSource] = {}
        self.short_of_memory = 0
        """Bytes of heaps that are written while the session is frozen, for want of memory."""
        self.copied = 0
        """Bytes of heaps that twins had."""

    def close(self) -> None:
        """Give back what was borrowed."""
        os.close(self._list)
        for source in self._sources.values():
            if source.handle >= 0:
                os.close(source.handle)

    @property
    def handles(self) -> tuple[int, ...]:
        """Descriptors for CRIU to inherit."""
        return (self._list,)

    @property
    def environment(self) -> dict[str, str]:
        """The variables for the guard."""
        return {"HOLDFAST_HEAPS": str(self._list)}

    def choose(self, pids: Iterable[int]) -> None:
        """Choose the heaps of frozen processes; the guard reads the list later. Raises OSError."""
        found = list(self._found(pids)) if self._wanted else []
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

    def _found(self, pids: Iterable[int]) -> Iterator[tuple[int, HeapsOf]]:
        statm = {pid: walk.read(f"{pid}/statm", small=walk.SMALL) or b"0 0" for pid in pids}
        sizes = {pid: int(words.split()[1]) * PAGE for pid, words in statm.items()}
        large = [pid for pid, size in sizes.items() if size >= heaps.LEAST_OF_PROCESS]
        ours = set(walk.namespaces_of(self._init_pid, ("pid",)).values())
        for pid in sorted(large, key=lambda pid: -sizes[pid])[: heaps.PROCESSES]:
            # A child in another PID namespace would have another pid there.
            if set(walk.namespaces_of(pid, ("pid", "pid_for_children")).values()) != ours:
                continue
            with suppress(OSError):
                found = heaps.find(bounded.read(walk.PROC / str(pid) / "smaps", MAX_SMAPS))
                if found is not None:
                    yield pid, found

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
                source.handle = os.pidfd_open(source.pid)
                with suppress(OSError):  # it is the first to go when memory is short
                    Path(f"/proc/{source.pid}/oom_score_adj").write_text("1000")
        for inner in self._sources.keys() - made.keys():
            _Copy(self._sources.pop(inner), images).run(check)

    def copy(self, images: Path) -> None:
        """Copy the heaps from the twins.

        Raises:
            TwinLost: one ended meanwhile.
            NoRoom: the disk is full.
            OSError: they cannot be written.
        """
        for source in self._sources.values():
            try:
                _Copy(source, images).run(lambda: None)
            except ProcessLookupError as error:
                raise TwinLost(_LOST) from error
            if select.select([source.handle], [], [], 0)[0]:  # its pid may have been another's
                raise TwinLost(_LOST)
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
        self._data = bytearray(PIECE)
        self._target = (ctypes.c_char * PIECE).from_buffer(self._data)

    def run(self, check: Callable[[], None]) -> None:
        starts = [heap.start for heap in self._source.heaps.heaps]
        first, *rest = heap_pages.split(self._entries, starts)
        entries = [self._head, *first.entries]
        with self._pages.open("rb") as old, self._making.open("xb", buffering=0) as new:
            _move(old.fileno(), new.fileno(), first)
            for heap, after in zip(self._source.heaps.heaps, rest, strict=True):
                for address, size in self._present(heap.start, heap.end):
                    check()
                    foreign_memory.read_into(self._source.pid, address, self._target, size)
                    for offset, length in heap_pages.without_zeros(self._data, size):
                        _write(new.fileno(), memoryview(self._data)[offset : offset + length])
                        entries += map(_entry, heap_pages.described(address + offset, length))
                entries += after.entries
                _move(old.fileno(), new.fileno(), after)
        criu_images.write(self._pagemap, self._magic, entries)
        self._making.replace(self._pages)

    def _present(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield address and size of pieces of memory that exist."""
        with Path(f"/proc/{self._source.pid}/pagemap").open("rb", buffering=0) as pagemap:
            for window in range(start, end, WINDOW):
                size = min(WINDOW, end - window) // PAGE * heap_pages.ENTRY
                listed = os.pread(pagemap.fileno(), size, window // PAGE * heap_pages.ENTRY)
                for address, length in heap_pages.present(listed, window):
                    for at in range(address, address + length, PIECE):
                        yield at, min(PIECE, address + length - at)


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
    flags = heap_pages.PRESENT | heap_pages.LAZY
    return pagemap_pb2.pagemap_entry(vaddr=address, compat_nr_pages=0, flags=flags, nr_pages=pages)


def _move(old: int, new: int, part: heap_pages.Written) -> None:
    offset, size = part.offset, part.size
    while size:
        done = os.copy_file_range(old, new, size, offset)
        if not done:
            raise OSError("CRIU's images are shorter than they say")
        offset, size = offset + done, size - done


def _write(to: int, data: memoryview) -> None:
    while data:
        try:
            data = data[os.write(to, data) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoom(error.strerror) from error
            raise
