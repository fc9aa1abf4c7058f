"""Copies large heaps while the session runs again, from twins of their processes made while it was frozen.

The guard hides the heaps from CRIU and makes the twins (guard_heaps.c, guard_twins.c); heaps.py chooses the
heaps. A twin is a stopped process of the session, so root in there can end it, and so can the kernel when
memory is short. Then the copy fails, and with it the capture. A process without a twin is read before it
continues.

Where writes have been noted since the last capture (`write_tracking.py`), unwritten pages
are not read at all: CRIU's map of pages says that the images of that capture have them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import Any

from pycriu.images import pagemap_pb2

from holdfast.procfs import bounded, memory_maps, process_stat, process_status, walk
from holdfast.snapshots.checkpointer.carried import heaps
from holdfast.snapshots.checkpointer.carried.heaps import PAGE, HeapsOf
from holdfast.snapshots.checkpointer.criu import criu_images
from holdfast.snapshots.checkpointer.dump import write_tracking
from holdfast.snapshots.checkpointer.dump.write_behind import WriteBehind
from holdfast.snapshots.checkpointer.dump.write_tracking import TrackedMemory
from holdfast.snapshots.checkpointer.ground import cgroups, pidfd_files, tree
from holdfast.snapshots.checkpointer.record import page_ranges
from holdfast.snapshots.checkpointer.record.page_ranges import Range

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
"""By version of control groups: the limit, the used amount, and the part of that that is given back when it
is needed.
"""


READ_AT_ONCE = 16 << 20
"""Bytes of a process that are read while it is frozen: a twin takes longer."""
_TWIN, _TRACKING = 1, 2
"""The wishes for a process; the same in guard.h."""
_STANDING = "tTD"
"""The states of a twin, see proc_pid_stat(5): the last one while its control group is frozen."""
_LOST = "the copy of a process ended before its memory was written"


class TwinLost(OSError):
    """A twin ended before its memory was copied."""


class NoRoom(OSError):
    """The heaps do not fit on the disk."""


@dataclass(slots=True)
class _HeapSource:
    """The reader of a process's heaps by its inner pid: in the process, or in its twin.

    Open files of /proc/PID stay with the memory they were opened for, whatever becomes of the pid. Pages that
    other processes have as well are read as they are; process_vm_readv(2) would first copy each of them.
    """

    inner: int
    heaps: HeapsOf
    process: int
    pid: int
    memory: int = -1
    pagemap: int = -1
    unread: list[Range] = field(default_factory=list)
    """Pages that are not read: the images of the last capture have them, or they consist of zeros."""
    earlier: list[Range] = field(default_factory=list)
    """The pages among these that the images have."""
    covered: list[Range] = field(default_factory=list)
    """The pages whose writes are noted from this capture on."""

    def open(self) -> None:
        self.memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self.pagemap = os.open(f"/proc/{self.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        for one in (self.memory, self.pagemap):
            if one >= 0:
                os.close(one)
        self.memory = self.pagemap = -1

    def is_whole(self) -> bool:
        """Return whether the twin has all of its memory: it is stopped, and was not killed."""
        status = process_status.parse(walk.read(f"{self.pid}/status", small=walk.SMALL) or b"")
        now = process_stat.parse(walk.read(f"{self.pid}/stat", small=walk.SMALL) or b"")
        if status is None or now is None or now.ended:
            return False
        return status.state in _STANDING and not status.pending & 1 << SIGKILL - 1

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

    def __init__(
        self, init_pid: int, *, wanted: bool, tracking: bool, tracked: dict[int, TrackedMemory]
    ) -> None:
        """Begin; `tracking`: writes are to be noted from now on; `tracked`: the places noted so far, by
        pid."""
        self._init_pid = init_pid
        self._wanted = wanted
        self._tracking = tracking
        self._tracked = tracked
        self._list = os.memfd_create("heaps")
        self._seen: dict[int, HeapsOf] = {}
        self._sources: dict[int, _HeapSource] = {}
        self.short_of_memory = 0
        """Bytes of heaps that are written while the session is frozen, for want of memory."""
        self.copied = 0
        """Bytes of heaps that twins had."""
        self._kills_before = 0

    def close(self) -> None:
        """Return the borrowed descriptors."""
        os.close(self._list)
        for source in self._sources.values():
            source.close()
        for memory in self._tracked.values():
            memory.close()

    @property
    def based(self) -> dict[int, list[Range]]:
        """Return the pages that the images of the last capture have, by inner pid."""
        return {inner: one.earlier for inner, one in self._sources.items() if one.earlier}

    def tracked(self) -> list[TrackedMemory]:
        """Return the places where writes are noted since this capture, which has to have been written."""
        return [
            memory
            for source in self._sources.values()
            if (memory := self._tracked.get(source.process)) is not None
            and memory.covered
            and len(memory.kept) <= write_tracking.MOST_RANGES
        ]

    @property
    def handles(self) -> tuple[int, ...]:
        """Descriptors for CRIU to inherit."""
        return (self._list,)

    @property
    def environment(self) -> dict[str, str]:
        """The variables for the guard."""
        return {"HOLDFAST_HEAPS": str(self._list)}

    def look(self, root: int) -> None:
        """Find the heaps while the session runs, since that takes time. Raises OSError."""
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
                if found is not None and (one := heaps.find(found, tracked=pid in self._tracked)) is not None:
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
            source = self._sources[inner] = _HeapSource(inner, one, pid, pid)
            wishes = self._wishes(source)
            lines += [f"{inner} {one.code:x} {heap.start:x} {heap.end:x} {wishes:x}\n" for heap in one.heaps]
        os.pwrite(self._list, "".join(lines).encode(), 0)
        os.lseek(self._list, 0, os.SEEK_END)

    def _wishes(self, source: _HeapSource) -> int:
        """Return the wishes for a frozen process, after checking which of its pages were written."""
        if not self._tracking or any(map(write_tracking.reads_behind_the_kernel, walk.maps(source.process))):
            self._forget(source)
            return _TWIN
        memory = self._tracked.get(source.process)
        if memory is None:
            return _TWIN | _TRACKING
        try:
            with closing(write_tracking.PageScan(source.process)) as scan:
                for heap in source.heaps.heaps:
                    self._look_at(heap, memory, scan, source)
        except OSError:
            self._forget(source)
            return _TWIN
        left = source.heaps.resident - page_ranges.size(source.earlier)
        return 0 if left <= READ_AT_ONCE else _TWIN

    def _look_at(
        self, heap: heaps.Heap, memory: TrackedMemory, scan: write_tracking.PageScan, source: _HeapSource
    ) -> None:
        """Add the pages of a heap that are not read. Raises OSError: writes are no longer noted."""
        whole = [(heap.start, heap.end)]
        known = page_ranges.common(whole, memory.covered)
        try:
            unwritten = scan.unwritten(heap.start, heap.end) if known else []
            written = scan.take_written(heap.start, heap.end) if known else []
        except write_tracking.NotTracked:
            known = []
        if known:
            unwritten = page_ranges.common(page_ranges.without(unwritten, written), known)
            source.unread += unwritten
            source.earlier += page_ranges.common(unwritten, memory.kept)
        else:
            memory.protect(heap.start, heap.end)
        source.covered += whole

    def _forget(self, source: _HeapSource) -> None:
        """Count all pages of a process as written, now and at the next capture."""
        source.unread, source.earlier, source.covered = [], [], []
        if (memory := self._tracked.pop(source.process, None)) is not None:
            memory.close()

    def take(self, root: int, criu: int, images: Path, check: Callable[[], None]) -> None:
        """Find the twins, while all tasks are stopped; copy the heaps of processes that have none.

        `criu` is the process that made them. `check` can end that by an exception.

        Raises:
            NoRoom: the disk is full.
            OSError: a heap cannot be copied.
        """
        self._take_tracked(criu)
        made = self._made("twin")
        if made:
            self._kills_before = _memory_kills(self._init_pid)
            outer = {tree.inner_pid_of(pid): pid for pid in tree.tree(root)}
            for inner, twin in made.items():
                source = self._sources[inner]
                source.pid = outer[twin]
                source.open()
                with suppress(OSError):  # it is the first to go when memory is short
                    Path(f"/proc/{source.pid}/oom_score_adj").write_text("1000")
        for inner in self._sources.keys() - made.keys():
            with closing(self._sources[inner]) as source:
                source.open()
                self._note_kept(source, _Copy(source, images).run(check, hurried=True))

    def copy(self, images: Path) -> None:
        """Copy the heaps from the twins.

        Raises:
            TwinLost: a twin ended during this.
            NoRoom: the disk is full.
            OSError: they cannot be written.
        """
        for source in self._sources.values():
            if source.pid == source.process:
                continue  # it was read
            if not heaps.is_faithful(source.heaps, _smaps(source.pid) or b""):
                raise TwinLost(_LOST)
            kept = _Copy(source, images).run(lambda: None)
            # From one that is being ended, the kernel takes pages while the files of its memory still work.
            if not source.is_whole():
                raise TwinLost(_LOST)
            self._note_kept(source, kept)
            self.copied += source.heaps.resident - page_ranges.size(source.unread)

    def killed_for_memory(self) -> int:
        """Return how many twins the kernel has killed for their memory; they are not let go of yet.

        The counter of the control group does not say which processes they were. If it rose, the twins that
        ended are the first ones that it counted (oom_score_adj).
        """
        twins = [source for source in self._sources.values() if source.pid != source.process]
        if all(source.is_whole() for source in twins):
            return 0
        counted = _memory_kills(self._init_pid) - self._kills_before
        return min(counted, sum(not source.is_whole() for source in twins))

    def _take_tracked(self, criu: int) -> None:
        """Get the memory of processes in which the guard has started to note writes."""
        for inner, descriptor in self._made("memory").items():
            source = self._sources[inner]
            with suppress(OSError):  # then they are not
                self._tracked[source.process] = TrackedMemory(
                    source.process,
                    write_tracking.started(source.process),
                    pidfd_files.copy(criu, descriptor),
                )
                source.covered = [(heap.start, heap.end) for heap in source.heaps.heaps]

    def _note_kept(self, source: _HeapSource, kept: list[Range]) -> None:
        if (memory := self._tracked.get(source.process)) is not None:
            memory.covered, memory.kept = source.covered, kept

    def _made(self, what: str) -> dict[int, int]:
        """Return the pids of twins, or descriptors, of the guard, by the inner pids of processes."""
        size = os.fstat(self._list).st_size
        lines = (line.split() for line in os.pread(self._list, size, 0).decode().splitlines())
        return {int(words[1]): int(words[2]) for words in lines if words[0] == what}


class _Copy:
    """The images of one process, written again with its heaps."""

    def __init__(self, source: _HeapSource, images: Path) -> None:
        self._source = source
        self._pagemap = images / f"pagemap-{source.inner}.img"
        self._magic, (self._head, *self._entries) = criu_images.read(self._pagemap)
        self._pages = images / f"pages-{self._head.pages_id}.img"
        self._making = images / "heaps.tmp"
        self._kept: list[Range] = []

    def run(self, check: Callable[[], None], *, hurried: bool = False) -> list[Range]:
        """Write the images again; `hurried` if the session waits. Return the heaps' pages."""
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
        return page_ranges.joined(self._kept)

    def _written(self, old: int, new: int, behind: WriteBehind, check: Callable[[], None]) -> list[Any]:
        """Write the pages to `new`; return the entries that describe them."""
        heaps_here = self._source.heaps.heaps
        first, *rest = heaps.split_pages(self._entries, [heap.start for heap in heaps_here])
        entries = [self._head, *first.entries]
        _move(old, new, first)
        for heap, after in zip(heaps_here, rest, strict=True):
            whole = [(heap.start, heap.end)]
            parts = [(one, True) for one in page_ranges.common(self._source.earlier, whole)]
            parts += [(one, False) for one in page_ranges.without(whole, self._source.unread)]
            for (start, end), is_earlier in sorted(parts):
                if is_earlier:
                    entries += self._described(start, end - start, heaps.IN_EARLIER)
                    continue
                for address, size in self._present(start, end):
                    check()
                    data = behind.buffer()
                    self._source.read(address, memoryview(data)[:size])
                    runs = list(heaps.without_zeros(data, size))
                    behind.send(data, runs)
                    for offset, length in runs:
                        entries += self._described(address + offset, length, heaps.PRESENT | heaps.LAZY)
            entries += after.entries
            behind.settle()
            _move(old, new, after)
        return entries

    def _described(self, address: int, size: int, flags: int) -> list[Any]:
        self._kept.append((address, address + size))
        return [_entry(one, flags) for one in heaps.page_entries(address, size)]

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
    """Return the bytes that the session can still take, by its own limits and the machine's."""
    free = [_fields(Path("/proc/meminfo")).get("MemAvailable:", 0) << 10]
    for controllers, folder in cgroups.folders(init_pid):
        if controllers and "memory" not in controllers.split(","):
            continue
        for limit, used, cache in _LIMITS:
            with suppress(OSError, ValueError):
                most, now = (int(bounded.text(folder / name, PAGE)) for name in (limit, used))
                free.append(most - now + _fields(folder / "memory.stat").get(cache, 0))
    return min(free)


def _memory_kills(init_pid: int) -> int:
    """Return how many processes of the session the kernel has killed for their memory; 0 if not counted."""
    with suppress(OSError):
        for controllers, folder in cgroups.folders(init_pid):
            if not controllers or "memory" in controllers.split(","):
                for name in ("memory.events", "memory.oom_control"):
                    with suppress(OSError, ValueError, KeyError):
                        return _fields(folder / name)["oom_kill"]
    return 0


def _fields(path: Path) -> dict[str, int]:
    lines = (line.split() for line in bounded.text(path, 1 << 16).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}


def _entry(described: tuple[int, int], flags: int) -> Any:
    address, pages = described
    return pagemap_pb2.pagemap_entry(vaddr=address, compat_nr_pages=0, flags=flags, nr_pages=pages)


def _move(old: int, new: int, part: heaps.WrittenPages) -> None:
    offset, size = part.offset, part.size
    while size:
        done = os.copy_file_range(old, new, size, offset)
        if not done:
            raise OSError("CRIU's images are shorter than declared")
        offset, size = offset + done, size - done
